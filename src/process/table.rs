//! The system's process table: processes, their parents, and signals to exactly the process that
//! was seen.

use std::collections::{BTreeMap, BTreeSet};

#[cfg(target_os = "linux")]
#[path = "table_linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "table_ps.rs"]
mod system;

pub(super) use system::{
    ORPHANS_COME_TO_US, become_reaper, boot_id, carries, close_to_others, look, mark_that_begins,
    scan, signal,
};

/// Process as it was in the last snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    pub(super) start_time: u64,
    /// Set for a zombie without a running thread.
    pub(super) is_dead: bool,
}

/// Identity of a process while this kernel runs.
pub(super) type Key = (i32, u64);

impl Entry {
    pub(super) fn key(&self) -> Key {
        (self.pid, self.start_time)
    }
}

/// Returns all descendants of the roots, without the roots.
pub(super) fn descendants(entries: &[Entry], roots: impl IntoIterator<Item = i32>) -> Vec<Entry> {
    let mut children: BTreeMap<i32, Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        children.entry(entry.parent).or_default().push(entry);
    }
    let mut to_visit: Vec<i32> = roots.into_iter().collect();
    let mut seen: BTreeSet<i32> = to_visit.iter().copied().collect();
    let mut found = Vec::new();
    while let Some(pid) = to_visit.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            if seen.insert(child.pid) {
                to_visit.push(child.pid);
                found.push(**child);
            }
        }
    }
    found
}

/// Returns a process and all its ancestors.
pub(super) fn ancestry(entries: &[Entry], pid: i32) -> BTreeSet<i32> {
    let parents: BTreeMap<i32, i32> = entries.iter().map(|e| (e.pid, e.parent)).collect();
    let mut line = BTreeSet::new();
    let mut next = Some(pid);
    while let Some(pid) = next.filter(|pid| line.insert(*pid)) {
        next = parents.get(&pid).copied();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(pid: i32, parent: i32) -> Entry {
        Entry {
            pid,
            parent,
            group: pid,
            session: pid,
            start_time: 1,
            is_dead: false,
        }
    }

    #[test]
    fn a_tree_is_walked_whatever_the_order_of_pids() {
        let table = [
            entry(1, 0),
            entry(2, 9),
            entry(9, 5),
            entry(5, 1),
            entry(7, 1),
            entry(3, 2),
        ];
        let pids = |roots: &[i32]| -> BTreeSet<i32> {
            descendants(&table, roots.iter().copied())
                .iter()
                .map(|e| e.pid)
                .collect()
        };
        assert_eq!(pids(&[5]), BTreeSet::from([2, 3, 9]));
        assert_eq!(pids(&[7]), BTreeSet::new());
        assert_eq!(pids(&[9, 2]), BTreeSet::from([3]));
        assert_eq!(ancestry(&table, 3), BTreeSet::from([0, 1, 2, 3, 5, 9]));
    }

    #[test]
    fn a_ring_in_the_table_ends() {
        let table = [entry(4, 6), entry(6, 4)];
        assert_eq!(descendants(&table, [4]).len(), 1);
        assert_eq!(ancestry(&table, 4), BTreeSet::from([4, 6]));
    }
}
