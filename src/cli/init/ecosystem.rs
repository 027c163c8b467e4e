//! Set-up and tests of the usual ecosystems, found by the files at the top of a repository. Nothing is run to find them.

use std::path::Path;

/// What one of the ecosystems proposes for a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Proposal {
    /// The command that makes a fresh worktree ready; none is needed by some.
    pub(super) setup: Option<&'static str>,
    /// The files after whose change it has to run again.
    pub(super) again_on: Vec<String>,
    /// The usual tests, where they are certain to be there.
    pub(super) gate: Option<&'static str>,
}

/// An ecosystem: the file that shows it, and what it proposes.
struct Ecosystem {
    /// A name that begins with `*` is the end of one.
    shown_by: &'static [&'static str],
    /// Empty where nothing has to be set up. It must not compile: a change that does not compile has to reach its review,
    /// and a red set-up holds it.
    setup: fn(&Path) -> &'static str,
    again_on: &'static [&'static str],
    gate: fn(&Path) -> Option<&'static str>,
}

/// In the order in which they are looked for: with tests before without, lock files before manifests.
const ECOSYSTEMS: &[Ecosystem] = &[
    Ecosystem {
        shown_by: &["Cargo.lock"],
        setup: |_| "cargo fetch",
        again_on: &["Cargo.lock"],
        gate: |_| Some("cargo test"),
    },
    // Without a lock file there is nothing to set up that `cargo test` does not do itself.
    Ecosystem { shown_by: &["Cargo.toml"], setup: |_| "", again_on: &[], gate: |_| Some("cargo test") },
    Ecosystem {
        shown_by: &["pnpm-lock.yaml"],
        setup: |_| "pnpm install --frozen-lockfile",
        again_on: &["pnpm-lock.yaml"],
        gate: |top| script_test(top, "pnpm test"),
    },
    Ecosystem {
        shown_by: &[".yarnrc.yml"],
        setup: |_| "yarn install --immutable",
        again_on: &["yarn.lock"],
        gate: |top| script_test(top, "yarn test"),
    },
    Ecosystem {
        shown_by: &["yarn.lock"],
        setup: |_| "yarn install --frozen-lockfile",
        again_on: &["yarn.lock"],
        gate: |top| script_test(top, "yarn test"),
    },
    Ecosystem {
        shown_by: &["bun.lock", "bun.lockb"],
        setup: |_| "bun install --frozen-lockfile",
        again_on: &["bun.lock", "bun.lockb"],
        gate: |top| script_test(top, "bun run test"),
    },
    Ecosystem {
        shown_by: &["package-lock.json", "npm-shrinkwrap.json"],
        setup: |_| "npm ci",
        again_on: &["package-lock.json", "npm-shrinkwrap.json"],
        gate: |top| script_test(top, "npm test"),
    },
    // A lock file that it wrote would be a change that nobody made.
    Ecosystem {
        shown_by: &["package.json"],
        setup: |_| "npm install --no-package-lock",
        again_on: &["package.json"],
        gate: |top| script_test(top, "npm test"),
    },
    Ecosystem {
        shown_by: &["go.mod"],
        setup: |_| "go mod download",
        again_on: &["go.sum", "go.mod"],
        gate: |_| Some("go test ./..."),
    },
    Ecosystem {
        shown_by: &["uv.lock"],
        setup: |_| "uv sync --locked",
        again_on: &["uv.lock"],
        gate: |top| has_pytest(top, "uv run pytest"),
    },
    Ecosystem {
        shown_by: &["poetry.lock"],
        setup: |_| "poetry install --no-interaction",
        again_on: &["poetry.lock"],
        gate: |top| has_pytest(top, "poetry run pytest"),
    },
    // The line in .gitignore keeps the folder out of commits in repositories that do not ignore it.
    Ecosystem {
        shown_by: &["requirements.txt"],
        setup: |_| "sh -c 'python3 -m venv .venv && echo \"*\" >.venv/.gitignore && .venv/bin/pip install -r requirements.txt'",
        again_on: &["requirements.txt"],
        gate: |top| has_pytest(top, ".venv/bin/python -m pytest"),
    },
    Ecosystem {
        shown_by: &["Gemfile.lock"],
        setup: |_| "bundle install",
        again_on: &["Gemfile.lock"],
        gate: |top| top.join("spec").is_dir().then_some("bundle exec rspec"),
    },
    Ecosystem {
        shown_by: &["composer.lock"],
        setup: |_| "composer install --no-interaction",
        again_on: &["composer.lock"],
        gate: |top| has_any(top, &["phpunit.xml", "phpunit.xml.dist"]).then_some("vendor/bin/phpunit"),
    },
    Ecosystem {
        shown_by: &["gradlew"],
        setup: |_| "./gradlew --no-daemon help",
        again_on: &["gradle.lockfile", "build.gradle", "build.gradle.kts"],
        gate: |_| Some("./gradlew --no-daemon test"),
    },
    Ecosystem {
        shown_by: &["build.gradle", "build.gradle.kts"],
        setup: |_| "gradle --no-daemon help",
        again_on: &["gradle.lockfile", "build.gradle", "build.gradle.kts"],
        gate: |_| Some("gradle --no-daemon test"),
    },
    Ecosystem {
        shown_by: &["mvnw"],
        setup: |top| maven(top, "./mvnw -B dependency:go-offline", "./mvnw -B -q validate"),
        again_on: &["pom.xml"],
        gate: |_| Some("./mvnw -B test"),
    },
    Ecosystem {
        shown_by: &["pom.xml"],
        setup: |top| maven(top, "mvn -B dependency:go-offline", "mvn -B -q validate"),
        again_on: &["pom.xml"],
        gate: |_| Some("mvn -B test"),
    },
    Ecosystem {
        shown_by: &["*.sln", "*.slnx", "*.csproj", "*.fsproj"],
        setup: |_| "dotnet restore",
        again_on: &["packages.lock.json", "Directory.Packages.props"],
        gate: |_| Some("dotnet test"),
    },
    Ecosystem {
        shown_by: &["mix.exs"],
        setup: |_| "mix deps.get",
        again_on: &["mix.lock"],
        gate: |_| Some("mix test"),
    },
];

/// The first ecosystem that has tests here; else the first one that is here at all.
pub(super) fn detect(top: &Path) -> Option<Proposal> {
    let here = || ECOSYSTEMS.iter().filter(|one| has_any(top, one.shown_by));
    let found = here().find(|one| (one.gate)(top).is_some()).or_else(|| here().next())?;
    let is_here = |name: &&&str| top.join(name).is_file();
    let mut again_on: Vec<String> = found.again_on.iter().filter(is_here).map(|name| (*name).to_owned()).collect();
    let setup = Some((found.setup)(top)).filter(|setup| !setup.is_empty());
    if again_on.is_empty() && setup.is_some() {
        again_on = names(top).into_iter().filter(|name| found.shown_by.iter().any(|one| matches(one, name))).collect();
    }
    Some(Proposal { setup, again_on, gate: (found.gate)(top) })
}

fn has_any(top: &Path, wanted: &[&str]) -> bool {
    names(top).iter().any(|name| wanted.iter().any(|one| matches(one, name)))
}

fn matches(wanted: &str, name: &str) -> bool {
    match wanted.strip_prefix('*') {
        Some(end) => name.ends_with(end),
        None => name == wanted,
    }
}

/// The files at the top.
fn names(top: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(top).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// A test script in package.json; not the one that `npm init` writes, which fails.
fn script_test(top: &Path, gate: &'static str) -> Option<&'static str> {
    let text = std::fs::read(top.join("package.json")).unwrap_or_default();
    let package: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let test = package.pointer("/scripts/test").and_then(serde_json::Value::as_str);
    test.is_some_and(|test| !test.contains("no test specified")).then_some(gate)
}

/// The modules of a build depend on each other, and `go-offline` looks for those that are not built yet in a repository.
fn maven(top: &Path, one_module: &'static str, modules: &'static str) -> &'static str {
    let pom = std::fs::read_to_string(top.join("pom.xml")).unwrap_or_default();
    if pom.contains("<modules>") { modules } else { one_module }
}

/// pytest is among what is set up.
fn has_pytest(top: &Path, gate: &'static str) -> Option<&'static str> {
    let names = |file: &str| std::fs::read_to_string(top.join(file)).unwrap_or_default().contains("pytest");
    ["requirements.txt", "pyproject.toml"].into_iter().any(names).then_some(gate)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files with their text; the set-up, the gate, and the files after whose change the set-up runs again.
    type Case<'a> = (&'a [(&'a str, &'a str)], Option<&'a str>, Option<&'a str>, &'a [&'a str]);

    const TESTED: &str = "{\"scripts\": {\"test\": \"vitest\"}}";

    #[test]
    fn each_ecosystem_is_found_by_its_files() {
        let cases: &[Case<'_>] = &[
            (&[], None, None, &[]),
            (&[("README", "")], None, None, &[]),
            (&[("Cargo.toml", ""), ("Cargo.lock", "")], Some("cargo fetch"), Some("cargo test"), &["Cargo.lock"]),
            (&[("Cargo.toml", "")], Some(""), Some("cargo test"), &[]),
            (
                &[("package.json", TESTED), ("package-lock.json", "")],
                Some("npm ci"),
                Some("npm test"),
                &["package-lock.json"],
            ),
            (&[("package.json", TESTED)], Some("npm install --no-package-lock"), Some("npm test"), &["package.json"]),
            (
                &[
                    ("package.json", "{\"scripts\": {\"test\": \"echo \\\"Error: no test specified\\\" && exit 1\"}}"),
                    ("package-lock.json", ""),
                ],
                Some("npm ci"),
                None,
                &["package-lock.json"],
            ),
            (
                &[("package.json", TESTED), ("pnpm-lock.yaml", "")],
                Some("pnpm install --frozen-lockfile"),
                Some("pnpm test"),
                &["pnpm-lock.yaml"],
            ),
            (
                &[("package.json", TESTED), ("yarn.lock", "")],
                Some("yarn install --frozen-lockfile"),
                Some("yarn test"),
                &["yarn.lock"],
            ),
            (
                &[("package.json", TESTED), ("yarn.lock", ""), (".yarnrc.yml", "")],
                Some("yarn install --immutable"),
                Some("yarn test"),
                &["yarn.lock"],
            ),
            (
                &[("package.json", TESTED), ("bun.lockb", "")],
                Some("bun install --frozen-lockfile"),
                Some("bun run test"),
                &["bun.lockb"],
            ),
            (&[("go.mod", ""), ("go.sum", "")], Some("go mod download"), Some("go test ./..."), &["go.sum", "go.mod"]),
            (
                &[("uv.lock", ""), ("pyproject.toml", "dev = [\"pytest\"]")],
                Some("uv sync --locked"),
                Some("uv run pytest"),
                &["uv.lock"],
            ),
            (
                &[("poetry.lock", ""), ("pyproject.toml", "")],
                Some("poetry install --no-interaction"),
                None,
                &["poetry.lock"],
            ),
            (&[("requirements.txt", "pytest==8\n")], None, Some(".venv/bin/python -m pytest"), &["requirements.txt"]),
            (&[("Gemfile.lock", "")], Some("bundle install"), None, &["Gemfile.lock"]),
            (
                &[("Gemfile.lock", ""), ("spec/a_spec.rb", "")],
                Some("bundle install"),
                Some("bundle exec rspec"),
                &["Gemfile.lock"],
            ),
            (
                &[("composer.lock", ""), ("phpunit.xml.dist", "")],
                Some("composer install --no-interaction"),
                Some("vendor/bin/phpunit"),
                &["composer.lock"],
            ),
            (
                &[("gradlew", ""), ("build.gradle.kts", "")],
                Some("./gradlew --no-daemon help"),
                Some("./gradlew --no-daemon test"),
                &["build.gradle.kts"],
            ),
            (
                &[("build.gradle", "")],
                Some("gradle --no-daemon help"),
                Some("gradle --no-daemon test"),
                &["build.gradle"],
            ),
            (&[("pom.xml", "")], Some("mvn -B dependency:go-offline"), Some("mvn -B test"), &["pom.xml"]),
            (
                &[("pom.xml", ""), ("mvnw", "")],
                Some("./mvnw -B dependency:go-offline"),
                Some("./mvnw -B test"),
                &["pom.xml"],
            ),
            (
                &[("pom.xml", "<project><modules><module>core</module></modules></project>")],
                Some("mvn -B -q validate"),
                Some("mvn -B test"),
                &["pom.xml"],
            ),
            (
                &[("pom.xml", "<modules>"), ("mvnw", "")],
                Some("./mvnw -B -q validate"),
                Some("./mvnw -B test"),
                &["pom.xml"],
            ),
            (&[("Calc.sln", "")], Some("dotnet restore"), Some("dotnet test"), &["Calc.sln"]),
            (&[("mix.exs", ""), ("mix.lock", "")], Some("mix deps.get"), Some("mix test"), &["mix.lock"]),
            // The one with tests wins over a lock file for a few tools.
            (
                &[("package.json", "{}"), ("package-lock.json", ""), ("go.mod", "")],
                Some("go mod download"),
                Some("go test ./..."),
                &["go.mod"],
            ),
        ];
        for (files, setup, gate, again_on) in cases {
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in *files {
                let path = folder.path().join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            let found = detect(folder.path());
            let shown: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
            if let Some(setup) = setup {
                assert_eq!(found.as_ref().and_then(|found| found.setup).unwrap_or_default(), *setup, "{shown:?}");
            }
            assert_eq!(found.as_ref().and_then(|found| found.gate), *gate, "{shown:?}");
            assert_eq!(found.map(|found| found.again_on).unwrap_or_default(), *again_on, "{shown:?}");
        }
    }

    #[test]
    fn every_set_up_is_one_command() {
        let folder = tempfile::tempdir().unwrap();
        for one in ECOSYSTEMS {
            let setup = (one.setup)(folder.path());
            let words = super::super::choice::words(setup, "it").unwrap();
            assert_eq!(words.is_empty(), setup.is_empty(), "{setup}");
        }
    }
}
