//! JSON of users, repositories, pull requests and commits, with every field that GitHub's API description requires.

use serde_json::{Map, Value, json};

use crate::git::Commit;
use crate::request::API;
use crate::state::{GithubState, Permission, Pull, Repo, UserKind};

pub(crate) const WEB: &str = "https://github.com";

/// URLs in the JSON of a user: key, and the part that follows the URL of the user.
const USER_URLS: &[(&str, &str)] = &[
    ("url", ""),
    ("followers_url", "/followers"),
    ("following_url", "/following{/other_user}"),
    ("gists_url", "/gists{/gist_id}"),
    ("starred_url", "/starred{/owner}{/repo}"),
    ("subscriptions_url", "/subscriptions"),
    ("organizations_url", "/orgs"),
    ("repos_url", "/repos"),
    ("events_url", "/events{/privacy}"),
    ("received_events_url", "/received_events"),
];
/// URLs in the JSON of a repository: key, and the part that follows the URL of the repository.
const REPO_URLS: &[(&str, &str)] = &[
    ("url", ""),
    ("archive_url", "/{archive_format}{/ref}"),
    ("assignees_url", "/assignees{/user}"),
    ("blobs_url", "/git/blobs{/sha}"),
    ("branches_url", "/branches{/branch}"),
    ("collaborators_url", "/collaborators{/collaborator}"),
    ("comments_url", "/comments{/number}"),
    ("commits_url", "/commits{/sha}"),
    ("compare_url", "/compare/{base}...{head}"),
    ("contents_url", "/contents/{+path}"),
    ("contributors_url", "/contributors"),
    ("deployments_url", "/deployments"),
    ("downloads_url", "/downloads"),
    ("events_url", "/events"),
    ("forks_url", "/forks"),
    ("git_commits_url", "/git/commits{/sha}"),
    ("git_refs_url", "/git/refs{/sha}"),
    ("git_tags_url", "/git/tags{/sha}"),
    ("hooks_url", "/hooks"),
    ("issue_comment_url", "/issues/comments{/number}"),
    ("issue_events_url", "/issues/events{/number}"),
    ("issues_url", "/issues{/number}"),
    ("keys_url", "/keys{/key_id}"),
    ("labels_url", "/labels{/name}"),
    ("languages_url", "/languages"),
    ("merges_url", "/merges"),
    ("milestones_url", "/milestones{/number}"),
    (
        "notifications_url",
        "/notifications{?since,all,participating}",
    ),
    ("pulls_url", "/pulls{/number}"),
    ("releases_url", "/releases{/id}"),
    ("stargazers_url", "/stargazers"),
    ("statuses_url", "/statuses/{sha}"),
    ("subscribers_url", "/subscribers"),
    ("subscription_url", "/subscription"),
    ("tags_url", "/tags"),
    ("teams_url", "/teams"),
    ("trees_url", "/git/trees{/sha}"),
];

/// Timestamp of objects whose times the stand-in does not keep.
const LONG_AGO: &str = "2020-01-01T00:00:00Z";

pub(crate) fn merge(mut value: Value, more: Value) -> Value {
    if let (Some(object), Value::Object(more)) = (value.as_object_mut(), more) {
        object.extend(more);
    }
    value
}

fn urls(base: &str, list: &[(&str, &str)]) -> Value {
    let pair =
        |(name, rest): &(&str, &str)| ((*name).to_owned(), Value::from(format!("{base}{rest}")));
    Value::Object(list.iter().map(pair).collect::<Map<_, _>>())
}

pub(crate) fn node_id(kind: &str, id: i64) -> String {
    format!("{kind}_{id}")
}

impl GithubState {
    /// Returns null for a deleted account.
    pub(crate) fn user(&self, login: &str) -> Value {
        let Some((login, user)) = self
            .users
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(login))
        else {
            return Value::Null;
        };
        let kind = match user.kind {
            UserKind::User => "User",
            UserKind::Bot => "Bot",
            UserKind::Organization => "Organization",
        };
        let page = login.trim_end_matches("[bot]");
        let more = json!({
            "login": login,
            "id": user.id,
            "node_id": node_id("U", user.id),
            "avatar_url": format!("https://avatars.githubusercontent.com/u/{}?v=4", user.id),
            "gravatar_id": "",
            "html_url": if user.kind == UserKind::Bot { format!("{WEB}/apps/{page}") } else { format!("{WEB}/{page}") },
            "type": kind,
            "user_view_type": "public",
            "site_admin": false,
        });
        let escaped = login.replace('[', "%5B").replace(']', "%5D");
        merge(urls(&format!("{API}/users/{escaped}"), USER_URLS), more)
    }

    /// Returns the user with the fields that only they can see.
    pub(crate) fn private_user(&self, login: &str) -> Value {
        let more = json!({
            "user_view_type": "private",
            "name": null, "company": null, "blog": "", "location": null, "email": null, "hireable": null, "bio": null,
            "public_repos": 1, "public_gists": 0, "followers": 0, "following": 0,
            "created_at": LONG_AGO, "updated_at": LONG_AGO,
            "private_gists": 0, "total_private_repos": 0, "owned_private_repos": 0, "disk_usage": 0,
            "collaborators": 0, "two_factor_authentication": true,
        });
        merge(self.user(login), more)
    }

    pub(crate) fn collaborator(&self, login: &str, permission: Permission) -> Value {
        merge(
            self.user(login),
            json!({ "permissions": permissions(permission), "role_name": permission }),
        )
    }

    pub(crate) fn repo(&self, name: &str) -> Value {
        let Some(repo) = self.repos.get(name) else {
            return Value::Null;
        };
        let (owner, short) = name.split_once('/').unwrap_or((name, name));
        let open = repo.pulls.values().filter(|pull| pull.is_open()).count();
        let mine = self
            .me
            .as_ref()
            .map_or(Permission::Read, |me| self.permission(repo, me));
        let more = json!({
            "id": repo.id,
            "node_id": node_id("R", repo.id),
            "name": short,
            "full_name": name,
            "private": repo.private,
            "visibility": if repo.private { "private" } else { "public" },
            "owner": self.user(owner),
            "html_url": format!("{WEB}/{name}"),
            "description": null,
            "fork": false,
            "default_branch": repo.default_branch,
            "git_url": format!("git://github.com/{name}.git"),
            "ssh_url": format!("git@github.com:{name}.git"),
            "clone_url": format!("{WEB}/{name}.git"),
            "svn_url": format!("{WEB}/{name}"),
            "permissions": permissions(mine),
        });
        merge(
            urls(&format!("{API}/repos/{name}"), REPO_URLS),
            merge(more, common_repo_fields(open)),
        )
    }

    /// Returns a repository with the fields that other objects omit.
    pub(crate) fn full_repo(&self, name: &str) -> Value {
        merge(
            self.repo(name),
            json!({ "network_count": 0, "subscribers_count": 0 }),
        )
    }

    /// Returns a pull request as it is in lists.
    pub(crate) fn pull(&self, repo: &str, number: i64, pull: &Pull) -> Value {
        let (api, web) = (
            format!("{API}/repos/{repo}"),
            format!("{WEB}/{repo}/pull/{number}"),
        );
        let url = format!("{api}/pulls/{number}");
        let issue = format!("{api}/issues/{number}");
        let head = pull.shown_head.as_ref().unwrap_or(&pull.head_sha);
        let statuses = format!("{api}/statuses/{head}");
        let review_comment = format!("{api}/pulls/comments{{/number}}");
        let link = |href: &str| json!({ "href": href });
        let label = |name: &String| {
            let id = 1 + pull
                .labels
                .iter()
                .position(|known| known == name)
                .unwrap_or_default();
            json!({
                "id": id, "node_id": format!("LA_{id}"), "url": format!("{api}/labels/{name}"), "name": name,
                "description": "", "color": "ededed", "default": false,
            })
        };
        json!({
            "url": url,
            "id": pull.id,
            "node_id": node_id("PR", pull.id),
            "html_url": web,
            "diff_url": format!("{web}.diff"),
            "patch_url": format!("{web}.patch"),
            "issue_url": issue,
            "number": number,
            "state": if pull.is_open() { "open" } else { "closed" },
            "locked": false,
            "title": pull.title,
            "user": self.user(&pull.author),
            "body": pull.body,
            "created_at": pull.created_at,
            "updated_at": pull.updated_at,
            "closed_at": pull.closed_at,
            "merged_at": pull.merged_at,
            "merge_commit_sha": pull.merge_commit_sha,
            "assignee": null,
            "assignees": [],
            "requested_reviewers": pull.requested_reviewers.iter().map(|login| self.user(login)).collect::<Vec<_>>(),
            "requested_teams": [],
            "labels": pull.labels.iter().map(label).collect::<Vec<_>>(),
            "milestone": null,
            "draft": pull.draft,
            "commits_url": format!("{url}/commits"),
            "review_comments_url": format!("{url}/comments"),
            "review_comment_url": review_comment,
            "comments_url": format!("{issue}/comments"),
            "statuses_url": statuses,
            "head": self.branch(pull.head_repo.as_deref(), &pull.head_ref, head),
            "base": self.branch(Some(repo), &pull.base_ref, &pull.base_sha),
            "_links": {
                "self": link(&url),
                "html": link(&web),
                "issue": link(&issue),
                "comments": link(&format!("{issue}/comments")),
                "review_comments": link(&format!("{url}/comments")),
                "review_comment": link(&review_comment),
                "commits": link(&format!("{url}/commits")),
                "statuses": link(&statuses),
            },
            "author_association": self.association(repo, &pull.author),
            "auto_merge": null,
            "active_lock_reason": null,
        })
    }

    /// Returns a pull request with the fields that lists omit. The numbers of commits and lines are made up.
    pub(crate) fn full_pull(&self, repo: &str, number: i64, pull: &Pull) -> Value {
        let more = json!({
            "merged": pull.merged_at.is_some(),
            "mergeable": if pull.is_open() { Value::Bool(true) } else { Value::Null },
            "rebaseable": if pull.is_open() { Value::Bool(true) } else { Value::Null },
            "mergeable_state": if pull.is_open() { "clean" } else { "unknown" },
            "merged_by": pull.merged_by.as_ref().map_or(Value::Null, |login| self.user(login)),
            "comments": pull.issue_comments.len(),
            "review_comments": pull.comments.len(),
            "maintainer_can_modify": false,
            "commits": 1, "additions": 0, "deletions": 0, "changed_files": 1,
        });
        merge(self.pull(repo, number, pull), more)
    }

    pub(crate) fn commit(&self, repo: &str, commit: &Commit) -> Value {
        let (url, web) = (
            format!("{API}/repos/{repo}/git"),
            format!("{WEB}/{repo}/commit"),
        );
        let signature = |[name, email, date]: &[String; 3]| json!({ "name": name, "email": email, "date": date });
        let parent = |sha: &String| json!({ "sha": sha, "url": format!("{url}/commits/{sha}"), "html_url": format!("{web}/{sha}") });
        json!({
            "sha": commit.sha,
            "node_id": format!("C_{}", commit.sha),
            "url": format!("{url}/commits/{}", commit.sha),
            "html_url": format!("{web}/{}", commit.sha),
            "author": signature(&commit.author),
            "committer": signature(&commit.committer),
            "message": commit.message,
            "tree": { "sha": commit.tree, "url": format!("{url}/trees/{}", commit.tree) },
            "parents": commit.parents.iter().map(parent).collect::<Vec<_>>(),
            "verification": {
                "verified": false, "reason": "unsigned", "signature": null, "payload": null, "verified_at": null,
            },
        })
    }

    /// Returns the head or the base of a pull request.
    fn branch(&self, repo: Option<&str>, name: &str, sha: &str) -> Value {
        let owner = repo.and_then(|repo| repo.split('/').next());
        let label = owner.map_or_else(|| name.to_owned(), |owner| format!("{owner}:{name}"));
        json!({
            "label": label,
            "ref": name,
            "sha": sha,
            "user": owner.map_or(Value::Null, |owner| self.user(owner)),
            "repo": repo.map_or(Value::Null, |repo| self.repo(repo)),
        })
    }

    pub(crate) fn association(&self, repo: &str, login: &str) -> &'static str {
        let owner = repo.split('/').next().unwrap_or_default();
        let may_write = |repo: &Repo| self.permission(repo, login).may_write();
        if owner.eq_ignore_ascii_case(login) {
            "OWNER"
        } else if self.repos.get(repo).is_some_and(may_write) {
            "COLLABORATOR"
        } else {
            "NONE"
        }
    }
}

/// Returns the fields that are the same for all repositories of the stand-in, and the number of open issues.
fn common_repo_fields(open_issues: usize) -> Value {
    json!({
        "homepage": null, "language": null, "license": null, "mirror_url": null,
        "forks": 0, "forks_count": 0, "stargazers_count": 0, "watchers": 0, "watchers_count": 0, "size": 1,
        "open_issues": open_issues, "open_issues_count": open_issues,
        "has_issues": true, "has_projects": true, "has_wiki": true, "has_pages": false, "has_downloads": true,
        "has_discussions": false, "archived": false, "disabled": false, "is_template": false, "topics": [],
        "allow_forking": true, "web_commit_signoff_required": false,
        "created_at": LONG_AGO, "updated_at": LONG_AGO, "pushed_at": LONG_AGO,
    })
}

fn permissions(permission: Permission) -> Value {
    let at_least = |least: &[Permission]| least.contains(&permission);
    json!({
        "admin": at_least(&[Permission::Admin]),
        "maintain": at_least(&[Permission::Admin, Permission::Maintain]),
        "push": permission.may_write(),
        "triage": permission.may_write() || at_least(&[Permission::Triage]),
        "pull": !at_least(&[Permission::None]),
    })
}
