//! The purpose of a simple command, by its program and first arguments.

use super::path::file_name;
use super::shell::Simple;
use crate::text::each;

/// The purpose of a command. In a line of several the highest one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the words say it")]
pub enum Purpose {
    /// Moves about, waits, sets something for the shell.
    Nothing,
    /// Only looks.
    Look,
    Format,
    /// Creates, moves or removes files.
    Files,
    /// Changes the repository's state, other than by a commit.
    Git,
    /// Anything else: scripts, services, deployments.
    Run,
    /// A task of the project's task runner, other than those below.
    Task,
    Install,
    Lint,
    Build,
    Test,
    /// Opens a pull request, an issue, a release.
    Publish,
    Push,
    Commit,
}

/// The words of a command behind `sudo`, `timeout 5`, `npx`, `uv run`, `FOO=1` and their like.
pub fn unwrapped(words: &[String]) -> &[String] {
    let mut rest = words;
    loop {
        let word = |at: usize| rest.get(at).map(String::as_str).unwrap_or_default();
        let passed = match (file_name(word(0)), word(1)) {
            (first, _) if is_assignment(first) => 1,
            (
                "sudo" | "env" | "nohup" | "command" | "exec" | "npx" | "bunx" | "time" | "xvfb-run" | "then"
                | "do" | "else",
                _,
            ) => 1,
            ("timeout" | "nice" | "ionice" | "stdbuf", _) => options_passed(rest),
            ("uv" | "poetry" | "pipenv" | "hatch" | "pdm" | "rye", "run") => 2,
            ("bundle" | "pnpm" | "yarn", "exec") | ("pnpm" | "yarn", "dlx") => 2,
            ("python" | "python3" | "py", "-m") if rest.len() > 2 => 2,
            ("rtk", _) => 1,
            ("mise", "x" | "exec") => rest.iter().position(|word| word == "--").map_or(2, |at| at + 1),
            _ => return rest,
        };
        if passed >= rest.len() {
            return rest;
        }
        rest = &rest[passed..];
        // Options of the wrapper itself.
        while rest.len() > 1 && rest[0].starts_with('-') {
            rest = &rest[1..];
        }
    }
}

/// The wrapper, its options and their numbers: `timeout -k 5 60s`.
fn options_passed(words: &[String]) -> usize {
    let is_number = |word: &str| word.trim_end_matches(['s', 'm', 'h', 'd']).parse::<f64>().is_ok();
    1 + words.iter().skip(1).take_while(|word| word.starts_with('-') || is_number(word)).count()
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// Programs that run tasks by name.
const TASK_RUNNERS: &str = "make|gmake|just|task|rake|mage|invoke|composer|mvn|mvnw|gradle|gradlew|dotnet|swift|mix|\
    bazel|zig|flutter|sbt|lein|stack|cabal|xcodebuild|rails|artisan|tox|nox";
const INSTALLERS: &str =
    "pip|pip3|uv|poetry|pipenv|apt|apt-get|brew|dnf|pacman|gem|bundle|conda|rustup|apk|pdm|asdf|mise";
const TESTERS: &str = "pytest|py.test|nosetests|unittest|jest|vitest|mocha|ava|rspec|phpunit|ctest|gotestsum|nextest|bats|\
    pest|cypress|playwright";
const BUILDERS: &str = "tsc|vue-tsc|mypy|pyright|javac|gcc|g++|clang|clang++|cc|rustc|cmake|ninja|webpack|vite|next|\
    esbuild|rollup|tsup|turbo|nx";
const LINTERS: &str =
    "eslint|flake8|pylint|golangci-lint|stylelint|shellcheck|hadolint|rubocop|oxlint|ruff|biome";
const FORMATTERS: &str = "prettier|black|isort|gofmt|rustfmt|clang-format|goimports";
const FILE_TOOLS: &str = "mv|cp|rm|mkdir|touch|chmod|chown|ln|rmdir|unlink|truncate|patch|tee";
const NOTHING: &str = "cd|echo|printf|true|false|sleep|wait|export|set|source|.|pwd|exit|kill|pkill|pushd|popd|unset|clear|\
    done|fi";
const LOOKERS: &str = "ls|ll|dir|cat|bat|head|tail|less|more|grep|egrep|fgrep|rg|ag|find|fd|tree|wc|which|whereis|type|file|\
    stat|du|df|ps|top|free|env|printenv|date|uname|id|whoami|hostname|jq|yq|awk|sed|sort|uniq|cut|tr|diff|cmp|xxd|hexdump|\
    basename|dirname|realpath|readlink|history|man|help|lsof|ss|netstat|test|[|[[|xargs|column|nl|strings|md5sum|sha256sum";

/// Returns the purpose of a command.
pub fn purpose(simple: &Simple) -> Purpose {
    let words = unwrapped(&simple.words);
    let program = words.first().map(|word| file_name(word)).unwrap_or_default();
    let arguments: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
    let sub = arguments.iter().copied().find(|word| !word.starts_with(['-', '+'])).unwrap_or_default();
    let among = |list: &'static str| each(list).any(|known| known == program);
    match program {
        "" => written(simple, Purpose::Nothing),
        "git" => git(&arguments, sub),
        "gh" | "glab" => hosting(&arguments),
        "cargo" => cargo(sub, arguments.contains(&"--check")),
        "npm" | "pnpm" | "yarn" | "bun" | "deno" => node_manager(&arguments, sub),
        "go" => go(sub),
        _ if is_file_work(program, &arguments) => Purpose::Files,
        _ if is_test_run(program, &arguments) || among(TESTERS) => Purpose::Test,
        "docker" | "podman" if arguments.contains(&"build") => Purpose::Build,
        "mise" if matches!(sub, "run" | "r") => target(behind(&arguments, sub)),
        _ if among(TASK_RUNNERS) => target(sub),
        _ if among(INSTALLERS) => installer(&arguments, sub),
        _ if among(BUILDERS) => built(sub),
        _ if among(LINTERS) => {
            if matches!(sub, "format" | "fmt") {
                Purpose::Format
            } else {
                Purpose::Lint
            }
        }
        _ if among(FORMATTERS) => {
            let checks = arguments.iter().any(|word| matches!(*word, "--check" | "-c" | "-l"));
            if checks { Purpose::Lint } else { Purpose::Format }
        }
        _ if among(FILE_TOOLS) => Purpose::Files,
        _ if among(NOTHING) => written(simple, Purpose::Nothing),
        _ if among(LOOKERS) => written(simple, Purpose::Look),
        _ => Purpose::Run,
    }
}

/// Programs that only read, called with arguments that make them write.
fn is_file_work(program: &str, arguments: &[&str]) -> bool {
    match program {
        "sed" | "perl" => arguments.iter().any(|word| word.starts_with("-i") || word.starts_with("-pi")),
        "find" => arguments.iter().any(|word| matches!(*word, "-delete" | "-exec" | "-execdir")),
        _ => false,
    }
}

/// Scripts and interpreters that run tests by their arguments.
fn is_test_run(program: &str, arguments: &[&str]) -> bool {
    let is_script = |word: &str| {
        let name = file_name(word).to_lowercase();
        name.ends_with(".sh") && (name.contains("test") || name.contains("check"))
    };
    match program {
        "node" if arguments.contains(&"--test") => true,
        "python" | "python3" | "php" | "ruby" | "node" => {
            arguments.iter().any(|word| matches!(*word, "test" | "tests"))
        }
        "bash" | "sh" | "zsh" => arguments.first().is_some_and(|word| is_script(word)),
        _ => is_script(program),
    }
}

/// A command that only prints writes if it prints into a file.
fn written(simple: &Simple, otherwise: Purpose) -> Purpose {
    let real = simple.writes.iter().any(|(target, _)| !target.starts_with("/dev/"));
    if real { Purpose::Files } else { otherwise }
}

fn git(arguments: &[&str], sub: &str) -> Purpose {
    // `git -C path commit`: the path is not the word.
    let sub = match arguments {
        ["-C" | "-c", _, rest @ ..] => {
            rest.iter().copied().find(|word| !word.starts_with('-')).unwrap_or_default()
        }
        _ => sub,
    };
    let bare = arguments.len() < 2 || arguments[1..].iter().all(|word| word.starts_with('-'));
    match sub {
        "commit" => Purpose::Commit,
        "push" => Purpose::Push,
        "mv" | "rm" => Purpose::Files,
        "" | "status" | "diff" | "log" | "show" | "blame" | "ls-files" | "rev-parse" | "describe"
        | "shortlog" | "fetch" | "grep" | "config" | "reflog" | "ls-remote" | "ls-tree" | "cat-file"
        | "rev-list" | "merge-base" | "add" | "check-ignore" => Purpose::Look,
        "branch" | "tag" | "remote" if bare || arguments.contains(&"list") => Purpose::Look,
        "stash" | "worktree" if arguments.contains(&"list") => Purpose::Look,
        _ => Purpose::Git,
    }
}

fn hosting(arguments: &[&str]) -> Purpose {
    match arguments.iter().copied().filter(|word| !word.starts_with('-')).nth(1).unwrap_or_default() {
        "create" | "merge" | "close" | "comment" | "edit" | "review" | "reopen" => Purpose::Publish,
        _ => Purpose::Look,
    }
}

fn cargo(sub: &str, checks: bool) -> Purpose {
    match sub {
        "test" | "t" | "nextest" | "llvm-cov" | "miri" => Purpose::Test,
        "build" | "b" | "check" | "c" | "doc" | "rustc" => Purpose::Build,
        "clippy" | "deny" | "audit" | "machete" => Purpose::Lint,
        "fmt" => {
            if checks {
                Purpose::Lint
            } else {
                Purpose::Format
            }
        }
        "add" | "install" | "update" | "remove" | "upgrade" => Purpose::Install,
        "tree" | "metadata" | "search" | "info" | "" => Purpose::Look,
        _ => Purpose::Run,
    }
}

fn node_manager(arguments: &[&str], sub: &str) -> Purpose {
    let script = match sub {
        "run" | "run-script" => behind(arguments, sub),
        _ => sub,
    };
    match script {
        "install" | "i" | "add" | "ci" | "remove" | "uninstall" | "update" | "upgrade" | "up" | "rm"
        | "link" => Purpose::Install,
        "ls" | "list" | "view" | "info" | "outdated" | "audit" | "why" | "config" | "pack" => Purpose::Look,
        "t" => Purpose::Test,
        "" => {
            if arguments.is_empty() {
                Purpose::Install
            } else {
                Purpose::Look
            }
        }
        _ => target(script),
    }
}

fn go(sub: &str) -> Purpose {
    match sub {
        "test" => Purpose::Test,
        "build" | "generate" => Purpose::Build,
        "vet" => Purpose::Lint,
        "fmt" => Purpose::Format,
        "get" | "mod" | "install" => Purpose::Install,
        "env" | "version" | "list" | "doc" | "" => Purpose::Look,
        _ => Purpose::Run,
    }
}

/// The word behind another one.
fn behind<'a>(arguments: &[&'a str], word: &str) -> &'a str {
    arguments.iter().skip_while(|known| **known != word).nth(1).copied().unwrap_or_default()
}

/// The purpose by the name of a task or script.
fn target(name: &str) -> Purpose {
    let lower = name.to_lowercase();
    let any = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if any(&["test", "spec", "e2e", "coverage"]) || matches!(lower.as_str(), "check" | "verify" | "ci") {
        Purpose::Test
    } else if any(&["lint", "clippy", "analyze"]) {
        Purpose::Lint
    } else if any(&["build", "compile", "typecheck", "type-check", "tsc", "package", "assemble"])
        || matches!(lower.as_str(), "" | "all")
    {
        Purpose::Build
    } else if any(&["format", "fmt", "prettier"]) {
        Purpose::Format
    } else if any(&["install", "restore", "deps.get"]) {
        Purpose::Install
    } else {
        Purpose::Task
    }
}

fn built(sub: &str) -> Purpose {
    match sub {
        "dev" | "serve" | "preview" | "start" => Purpose::Run,
        other if other.contains("test") => Purpose::Test,
        other if other.contains("lint") => Purpose::Lint,
        _ => Purpose::Build,
    }
}

fn installer(arguments: &[&str], sub: &str) -> Purpose {
    let verb = if sub == "pip" {
        arguments.iter().copied().filter(|word| !word.starts_with('-')).nth(1).unwrap_or_default()
    } else {
        sub
    };
    match verb {
        "install" | "add" | "remove" | "uninstall" | "update" | "upgrade" | "sync" | "i" | "lock" | "use"
        | "component" | "target" => Purpose::Install,
        _ => Purpose::Look,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::shell::split;

    #[test]
    fn commands_are_judged_by_what_they_run() {
        for (line, expected) in [
            ("cargo test -p core", Purpose::Test),
            ("cargo nextest run", Purpose::Test),
            ("RUST_LOG=debug timeout 60 cargo test", Purpose::Test),
            ("timeout -k 5 60 pytest -q", Purpose::Test),
            ("uv run pytest tests/", Purpose::Test),
            ("python3 -m pytest", Purpose::Test),
            ("python manage.py test", Purpose::Test),
            ("npm test", Purpose::Test),
            ("npm run test:unit -- --watch=false", Purpose::Test),
            ("npx vitest run", Purpose::Test),
            ("./scripts/run-tests.sh", Purpose::Test),
            ("make check", Purpose::Test),
            ("mise run lint", Purpose::Lint),
            ("mise run test:ci", Purpose::Test),
            ("just release", Purpose::Task),
            ("./gradlew test", Purpose::Test),
            ("npx tsc --noEmit", Purpose::Build),
            ("make", Purpose::Build),
            ("npm run build", Purpose::Build),
            ("npm install express", Purpose::Install),
            ("uv pip install ruff", Purpose::Install),
            ("sudo apt-get install -y jq", Purpose::Install),
            ("cargo clippy --all-targets", Purpose::Lint),
            ("cargo fmt", Purpose::Format),
            ("git -C /x commit -m y", Purpose::Commit),
            ("git push origin main", Purpose::Push),
            ("git checkout -b topic", Purpose::Git),
            ("git branch --show-current", Purpose::Look),
            ("git status --short", Purpose::Look),
            ("gh pr create --title x", Purpose::Publish),
            ("gh pr view 3", Purpose::Look),
            ("ls -la", Purpose::Look),
            ("sed -n 1,5p a", Purpose::Look),
            ("sed -i s/a/b/ a.txt", Purpose::Files),
            ("cat > a.txt", Purpose::Files),
            ("echo hi", Purpose::Nothing),
            ("docker compose up -d", Purpose::Run),
            ("python3 -c 'print(1)'", Purpose::Run),
            ("sudo", Purpose::Run),
        ] {
            assert_eq!(purpose(&split(line).commands[0]), expected, "{line}");
        }
    }
}
