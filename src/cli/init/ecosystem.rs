//! Set-up and tests of common ecosystems, detected from the tracked files of a repository.
//! Detection runs no commands.

use super::catalog::ECOSYSTEMS;
use super::top::Top;

/// Proposal of an ecosystem for a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Proposal {
    /// Command that prepares a fresh worktree; some ecosystems need none.
    pub(super) setup: Option<&'static str>,
    /// Files that trigger the set-up again when they change.
    pub(super) again_on: Vec<String>,
    /// Usual tests, if they are certain to exist.
    pub(super) gate: Option<&'static str>,
    /// Tools of other languages that were also found, each with the file that indicates it.
    pub(super) others: Vec<(&'static str, String)>,
}

/// An ecosystem: the files that indicate it, and its proposal.
pub(super) struct Ecosystem {
    pub(super) tool: &'static str,
    /// Language of the tool; only one tool per language is used.
    pub(super) language: &'static str,
    /// Files that indicate it; a name that starts with `*` is a suffix.
    pub(super) shown_by: &'static [&'static str],
    /// Additional condition.
    pub(super) is_here: fn(&Top) -> bool,
    /// Set-up command, or empty if none is needed. It must not compile: a change that does not
    /// compile has to reach its review, and a failed set-up holds it.
    pub(super) setup: fn(&Top) -> &'static str,
    /// Manifests and lock files; a name that starts with `*` is a suffix.
    pub(super) again_on: &'static [&'static str],
    pub(super) gate: fn(&Top) -> Option<&'static str>,
}

/// Returns the first matching ecosystem that has tests, or else the first matching one.
pub(super) fn detect(top: &Top) -> Option<Proposal> {
    let is_here = |one: &&Ecosystem| top.first_of(one.shown_by).is_some() && (one.is_here)(top);
    let here = || ECOSYSTEMS.iter().filter(is_here);
    let found = here()
        .find(|one| (one.gate)(top).is_some())
        .or_else(|| here().next())?;
    let setup = Some((found.setup)(top)).filter(|setup| !setup.is_empty());
    let again_on = top
        .names_of(found.again_on)
        .into_iter()
        .map(str::to_owned)
        .collect();
    let mut others: Vec<(&'static str, String)> = Vec::new();
    let mut languages = vec![found.language];
    for one in here() {
        if !languages.contains(&one.language) {
            languages.push(one.language);
            others.extend(
                top.first_of(one.shown_by)
                    .map(|file| (one.tool, file.to_owned())),
            );
        }
    }
    Some(Proposal {
        setup,
        again_on,
        gate: (found.gate)(top),
        others,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files with their text, then the set-up, the gate, and the files that trigger the set-up
    /// again.
    type Case<'a> = (
        &'a [(&'a str, &'a str)],
        Option<&'a str>,
        Option<&'a str>,
        &'a [&'a str],
    );

    const TESTED: &str = "{\"scripts\": {\"test\": \"vitest\"}}";

    #[test]
    fn each_ecosystem_is_found_by_its_files() {
        let cases: &[Case<'_>] = &[
            (&[], None, None, &[]),
            (&[("README", "")], None, None, &[]),
            (
                &[("Cargo.toml", ""), ("Cargo.lock", "")],
                Some("cargo fetch"),
                Some("cargo test"),
                &["Cargo.lock", "Cargo.toml"],
            ),
            (&[("Cargo.toml", "")], Some(""), Some("cargo test"), &[]),
            (
                &[("package.json", TESTED), ("package-lock.json", "")],
                Some("npm ci"),
                Some("npm test"),
                &["package-lock.json", "package.json"],
            ),
            (
                &[("package.json", TESTED)],
                Some("npm install --no-package-lock"),
                Some("npm test"),
                &["package.json"],
            ),
            (
                &[
                    (
                        "package.json",
                        "{\"scripts\": {\"test\": \"echo \\\"Error: no test specified\\\" && exit 1\"}}",
                    ),
                    ("package-lock.json", ""),
                ],
                Some("npm ci"),
                None,
                &["package-lock.json", "package.json"],
            ),
            (
                &[("package.json", TESTED), ("pnpm-lock.yaml", "")],
                Some("pnpm install --frozen-lockfile"),
                Some("pnpm test"),
                &["package.json", "pnpm-lock.yaml"],
            ),
            (
                &[("package.json", TESTED), ("yarn.lock", "")],
                Some("yarn install --frozen-lockfile"),
                Some("yarn test"),
                &["package.json", "yarn.lock"],
            ),
            (
                &[
                    ("package.json", TESTED),
                    ("yarn.lock", ""),
                    (".yarnrc.yml", ""),
                ],
                Some("yarn install --immutable"),
                Some("yarn test"),
                &["package.json", "yarn.lock"],
            ),
            (
                &[("package.json", TESTED), ("bun.lockb", "")],
                Some("bun install --frozen-lockfile"),
                Some("bun run test"),
                &["bun.lockb", "package.json"],
            ),
            (
                &[("go.mod", ""), ("go.sum", "")],
                Some("go mod download"),
                Some("go test ./..."),
                &["go.mod", "go.sum"],
            ),
            (
                &[("uv.lock", ""), ("pyproject.toml", "dev = [\"pytest\"]")],
                Some("uv sync --locked"),
                Some("uv run pytest"),
                &["pyproject.toml", "uv.lock"],
            ),
            (
                &[("poetry.lock", ""), ("pyproject.toml", "")],
                Some("poetry install --no-interaction"),
                None,
                &["poetry.lock", "pyproject.toml"],
            ),
            (
                &[("requirements.txt", "pytest==8\n")],
                None,
                Some(".venv/bin/python -m pytest"),
                &["requirements.txt"],
            ),
            (
                &[
                    ("requirements.txt", "flask\n"),
                    ("requirements-dev.txt", "pytest\n"),
                ],
                Some(
                    "sh -c 'python3 -m venv .venv && echo \"*\" >.venv/.gitignore && .venv/bin/pip install -r requirements.txt -r requirements-dev.txt'",
                ),
                Some(".venv/bin/python -m pytest"),
                &["requirements-dev.txt", "requirements.txt"],
            ),
            (
                &[("pyproject.toml", "[tool.pytest.ini_options]\n")],
                Some(
                    "sh -c 'python3 -m venv .venv && echo \"*\" >.venv/.gitignore && .venv/bin/pip install -e . pytest'",
                ),
                Some(".venv/bin/python -m pytest"),
                &["pyproject.toml"],
            ),
            (&[("pyproject.toml", "[tool.black]\n")], None, None, &[]),
            (
                &[
                    ("package.json", TESTED),
                    ("yarn.lock", "# generated\n\n__metadata:\n  version: 8\n"),
                ],
                Some("yarn install --immutable"),
                Some("yarn test"),
                &["package.json", "yarn.lock"],
            ),
            (
                &[("Gemfile", ""), ("Gemfile.lock", "")],
                Some("bundle install"),
                None,
                &["Gemfile", "Gemfile.lock"],
            ),
            (
                &[
                    ("composer.json", "{\"scripts\": {\"test\": [\"pest\"]}}"),
                    ("composer.lock", ""),
                ],
                Some("composer install --no-interaction"),
                Some("composer test"),
                &["composer.json", "composer.lock"],
            ),
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
            (
                &[("pom.xml", "")],
                Some("mvn -B dependency:go-offline"),
                Some("mvn -B test"),
                &["pom.xml"],
            ),
            (
                &[("pom.xml", ""), ("mvnw", "")],
                Some("./mvnw -B dependency:go-offline"),
                Some("./mvnw -B test"),
                &["pom.xml"],
            ),
            (
                &[(
                    "pom.xml",
                    "<project><modules><module>core</module></modules></project>",
                )],
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
            (
                &[("Calc.sln", "")],
                Some("dotnet restore"),
                Some("dotnet test"),
                &["Calc.sln"],
            ),
            (
                &[("Calc.sln", ""), ("src/Calc.csproj", "")],
                Some("dotnet restore"),
                Some("dotnet test"),
                &["Calc.csproj", "Calc.sln"],
            ),
            (
                &[("mix.exs", ""), ("mix.lock", "")],
                Some("mix deps.get"),
                Some("mix test"),
                &["mix.exs", "mix.lock"],
            ),
            // The ecosystem with tests wins over a lock file for a few tools.
            (
                &[
                    ("package.json", "{}"),
                    ("package-lock.json", ""),
                    ("go.mod", ""),
                ],
                Some("go mod download"),
                Some("go test ./..."),
                &["go.mod"],
            ),
        ];
        for (files, setup, gate, again_on) in cases {
            let (_folder, top) = top(files);
            let found = detect(&top);
            let shown: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
            if let Some(setup) = setup {
                assert_eq!(
                    found
                        .as_ref()
                        .and_then(|found| found.setup)
                        .unwrap_or_default(),
                    *setup,
                    "{shown:?}"
                );
            }
            assert_eq!(
                found.as_ref().and_then(|found| found.gate),
                *gate,
                "{shown:?}"
            );
            assert_eq!(
                found.map(|found| found.again_on).unwrap_or_default(),
                *again_on,
                "{shown:?}"
            );
        }
    }

    #[test]
    fn files_that_are_not_tracked_do_not_count() {
        let (folder, _) = top(&[
            ("package.json", TESTED),
            ("package-lock.json", ""),
            ("Cargo.toml", ""),
        ]);
        let found = detect(&Top::new(folder.path(), ["package.json".to_owned()])).unwrap();
        assert_eq!(
            (found.setup, found.gate),
            (Some("npm install --no-package-lock"), Some("npm test"))
        );
        assert_eq!(
            (found.again_on, found.others),
            (vec!["package.json".to_owned()], vec![])
        );
        assert_eq!(detect(&Top::new(folder.path(), [])), None);
    }

    #[test]
    fn other_languages_are_named_once() {
        let (_folder, top) = top(&[
            ("go.mod", ""),
            ("package.json", "{}"),
            ("yarn.lock", ""),
            ("Gemfile.lock", ""),
            ("sub/mix.exs", ""),
        ]);
        let found = detect(&top).unwrap();
        assert_eq!(found.gate, Some("go test ./..."));
        assert_eq!(
            found.others,
            [
                ("yarn", "yarn.lock".to_owned()),
                ("bundler", "Gemfile.lock".to_owned())
            ]
        );
    }

    #[test]
    fn every_set_up_is_one_command() {
        let (_folder, top) = top(&[]);
        for one in ECOSYSTEMS {
            let setup = (one.setup)(&top);
            let words = super::super::choice::words(setup, "it").unwrap();
            assert_eq!(words.is_empty(), setup.is_empty(), "{setup}");
        }
    }

    fn top(files: &[(&str, &str)]) -> (tempfile::TempDir, Top) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let top = Top::new(
            folder.path(),
            files.iter().map(|(name, _)| (*name).to_owned()),
        );
        (folder, top)
    }
}
