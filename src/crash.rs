macro_rules! crash_point {
    ($name:expr) => {
        let _ = &$name;
    };
}
pub(crate) use crash_point;
