//! The ecosystems whose set-up and tests are detected.

use super::ecosystem::Ecosystem;
use super::top::Top;

/// All ecosystems, in detection order: with tests before without, lock files before manifests.
pub(super) const ECOSYSTEMS: &[Ecosystem] = &[
    Ecosystem {
        tool: "cargo",
        language: "Rust",
        shown_by: &["Cargo.lock"],
        is_here: |_| true,
        setup: |_| "cargo fetch",
        again_on: &["Cargo.toml", "Cargo.lock"],
        gate: |_| Some("cargo test"),
    },
    // Without a lock file no set-up is needed: `cargo test` does everything itself.
    Ecosystem {
        tool: "cargo",
        language: "Rust",
        shown_by: &["Cargo.toml"],
        is_here: |_| true,
        setup: |_| "",
        again_on: &[],
        gate: |_| Some("cargo test"),
    },
    Ecosystem {
        tool: "pnpm",
        language: "JavaScript",
        shown_by: &["pnpm-lock.yaml"],
        is_here: |_| true,
        setup: |_| "pnpm install --frozen-lockfile",
        again_on: &["package.json", "pnpm-lock.yaml", "pnpm-workspace.yaml"],
        gate: |top| script_test(top, "pnpm test"),
    },
    Ecosystem {
        tool: "yarn",
        language: "JavaScript",
        shown_by: &["yarn.lock", ".yarnrc.yml"],
        is_here: |_| true,
        setup: yarn,
        again_on: &["package.json", "yarn.lock"],
        gate: |top| script_test(top, "yarn test"),
    },
    Ecosystem {
        tool: "bun",
        language: "JavaScript",
        shown_by: &["bun.lock", "bun.lockb"],
        is_here: |_| true,
        setup: |_| "bun install --frozen-lockfile",
        again_on: &["package.json", "bun.lock", "bun.lockb"],
        gate: |top| script_test(top, "bun run test"),
    },
    Ecosystem {
        tool: "npm",
        language: "JavaScript",
        shown_by: &["package-lock.json", "npm-shrinkwrap.json"],
        is_here: |_| true,
        setup: |_| "npm ci",
        again_on: &["package.json", "package-lock.json", "npm-shrinkwrap.json"],
        gate: |top| script_test(top, "npm test"),
    },
    // A lock file written by the set-up would be an unintended change.
    Ecosystem {
        tool: "npm",
        language: "JavaScript",
        shown_by: &["package.json"],
        is_here: |_| true,
        setup: |_| "npm install --no-package-lock",
        again_on: &["package.json"],
        gate: |top| script_test(top, "npm test"),
    },
    Ecosystem {
        tool: "go",
        language: "Go",
        shown_by: &["go.mod"],
        is_here: |_| true,
        setup: |_| "go mod download",
        again_on: &["go.mod", "go.sum"],
        gate: |_| Some("go test ./..."),
    },
    Ecosystem {
        tool: "uv",
        language: "Python",
        shown_by: &["uv.lock"],
        is_here: |_| true,
        setup: |_| "uv sync --locked",
        again_on: &["pyproject.toml", "uv.lock"],
        gate: |top| has_pytest(top, "uv run pytest"),
    },
    Ecosystem {
        tool: "poetry",
        language: "Python",
        shown_by: &["poetry.lock"],
        is_here: |_| true,
        setup: |_| "poetry install --no-interaction",
        again_on: &["pyproject.toml", "poetry.lock"],
        gate: |top| has_pytest(top, "poetry run pytest"),
    },
    Ecosystem {
        tool: "pip",
        language: "Python",
        shown_by: &["requirements.txt", "requirements-dev.txt"],
        is_here: |_| true,
        setup: requirements,
        again_on: &["pyproject.toml", "requirements.txt", "requirements-dev.txt"],
        gate: |top| has_pytest(top, ".venv/bin/python -m pytest"),
    },
    // Other projects that only have this file may have nothing to install.
    Ecosystem {
        tool: "pip",
        language: "Python",
        shown_by: &["pyproject.toml"],
        is_here: |top| {
            top.text("pyproject.toml")
                .contains("[tool.pytest.ini_options]")
        },
        setup: |_| PACKAGE,
        again_on: &["pyproject.toml"],
        gate: |_| Some(".venv/bin/python -m pytest"),
    },
    Ecosystem {
        tool: "bundler",
        language: "Ruby",
        shown_by: &["Gemfile.lock"],
        is_here: |_| true,
        setup: |_| "bundle install",
        again_on: &["Gemfile", "Gemfile.lock"],
        gate: |top| top.has_folder("spec").then_some("bundle exec rspec"),
    },
    Ecosystem {
        tool: "composer",
        language: "PHP",
        shown_by: &["composer.lock"],
        is_here: |_| true,
        setup: |_| "composer install --no-interaction",
        again_on: &["composer.json", "composer.lock"],
        gate: php_test,
    },
    Ecosystem {
        tool: "gradle",
        language: "Java",
        shown_by: &["gradlew", "build.gradle", "build.gradle.kts"],
        is_here: |_| true,
        setup: |top| match top.has("gradlew") {
            true => "./gradlew --no-daemon help",
            false => "gradle --no-daemon help",
        },
        again_on: &[
            "build.gradle",
            "build.gradle.kts",
            "settings.gradle",
            "settings.gradle.kts",
            "gradle.lockfile",
        ],
        gate: |top| match top.has("gradlew") {
            true => Some("./gradlew --no-daemon test"),
            false => Some("gradle --no-daemon test"),
        },
    },
    Ecosystem {
        tool: "maven",
        language: "Java",
        shown_by: &["mvnw", "pom.xml"],
        is_here: |_| true,
        setup: maven,
        again_on: &["pom.xml"],
        gate: |top| match top.has("mvnw") {
            true => Some("./mvnw -B test"),
            false => Some("mvn -B test"),
        },
    },
    Ecosystem {
        tool: "dotnet",
        language: ".NET",
        shown_by: &["*.sln", "*.slnx", "*.csproj", "*.fsproj"],
        is_here: |_| true,
        setup: |_| "dotnet restore",
        again_on: &[
            "*.sln",
            "*.slnx",
            "*.csproj",
            "*.fsproj",
            "packages.lock.json",
            "Directory.Packages.props",
        ],
        gate: |_| Some("dotnet test"),
    },
    Ecosystem {
        tool: "mix",
        language: "Elixir",
        shown_by: &["mix.exs"],
        is_here: |_| true,
        setup: |_| "mix deps.get",
        again_on: &["mix.exs", "mix.lock"],
        gate: |_| Some("mix test"),
    },
];

// The line in .gitignore keeps the directory out of commits in repositories that do not ignore it.
macro_rules! venv {
    ($install:literal) => {
        concat!("sh -c 'python3 -m venv .venv && echo \"*\" >.venv/.gitignore && .venv/bin/pip install ", $install, "'")
    };
}

/// Set-up of a package. pytest is added because not every package lists it as a dependency.
const PACKAGE: &str = venv!("-e . pytest");

fn requirements(top: &Top) -> &'static str {
    match (top.has("requirements.txt"), top.has("requirements-dev.txt")) {
        (true, true) => venv!("-r requirements.txt -r requirements-dev.txt"),
        (false, true) => venv!("-r requirements-dev.txt"),
        (_, false) => venv!("-r requirements.txt"),
    }
}

/// Returns the set-up for yarn. Version 2 changed the option and the lock file.
fn yarn(top: &Top) -> &'static str {
    let is_berry = top.has(".yarnrc.yml")
        || top
            .text("yarn.lock")
            .lines()
            .any(|line| line == "__metadata:");
    if is_berry {
        "yarn install --immutable"
    } else {
        "yarn install --frozen-lockfile"
    }
}

/// Returns the set-up for Maven. The modules of a build depend on each other, and `go-offline`
/// would look for modules that are not built yet in a repository.
fn maven(top: &Top) -> &'static str {
    let has_modules = top.text("pom.xml").contains("<modules>");
    match (top.has("mvnw"), has_modules) {
        (true, true) => "./mvnw -B -q validate",
        (true, false) => "./mvnw -B dependency:go-offline",
        (false, true) => "mvn -B -q validate",
        (false, false) => "mvn -B dependency:go-offline",
    }
}

/// Returns the gate if package.json has a test script other than the failing one of `npm init`.
fn script_test(top: &Top, gate: &'static str) -> Option<&'static str> {
    let test = top.json_string("package.json", "/scripts/test")?;
    (!test.contains("no test specified")).then_some(gate)
}

/// Returns the gate if the set-up installs pytest.
fn has_pytest(top: &Top, gate: &'static str) -> Option<&'static str> {
    let files = ["requirements.txt", "requirements-dev.txt", "pyproject.toml"];
    files
        .iter()
        .any(|file| top.text(file).contains("pytest"))
        .then_some(gate)
}

fn php_test(top: &Top) -> Option<&'static str> {
    if top.first_of(&["phpunit.xml", "phpunit.xml.dist"]).is_some() {
        return Some("vendor/bin/phpunit");
    }
    // A script is a command or a list of commands.
    let has_script = ["/scripts/test", "/scripts/test/0"]
        .iter()
        .any(|at| top.json_string("composer.json", at).is_some());
    has_script.then_some("composer test")
}
