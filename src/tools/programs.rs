//! The purpose of a simple command, by its program and arguments, and lines that only read.

use std::sync::LazyLock;

use regex::RegexSet;

use super::path::file_name;
use super::shell::{CommandLine, Simple};
use crate::text::is_one_of;

/// The purpose of a command. In a line of several the highest one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the words say it")]
pub enum Purpose {
    /// Moves about, prints, waits.
    Nothing,
    /// Known to read.
    Look,
    Format,
    /// Moves files, stages them, sets up the shell, ends processes.
    Housekeeping,
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

/// Commands by purpose, as patterns for the beginning of their [`normal_form`]. The first row that fits counts; a command
/// that fits none is [`Purpose::Run`]. `TASK` stands for a task runner, up to the name of the task.
const PURPOSES: [(Purpose, &str); 21] = [
    // Readers with arguments that make them write, or run something else.
    (
        Purpose::Housekeeping,
        "(sed|perl|yq|awk|gawk)( .*)? (-[a-zA-Z]*[if]|--in-?place|--file).*|g?awk .*(>|system|\"␣*[|]|[|]&?␣*\").*|\
        sed .*([^a-zA-Z]|[/|#,@][gpIiMm0-9]*)[we]␣.*|sed .*[/|#,@][gpIiMm0-9]*e[gpIiMm0-9]*|\
        (sort|tree)( .*)? (-[a-zA-Z]*o|--output).*|date( .*)? (-s|--set).*|rg( .*)? --pre(=.*)?|\
        find( .*)? -(delete|exec|ok|fprint|fls).*|fd( .*)? (-[a-zA-Z]*[xX]|--exec).*|\
        git .* (--output|-O|--open-files-in-pager).*",
    ),
    (
        Purpose::Run,
        "gh api( .*)? (-X|-f|-F|--method|--field|--raw-field|--input).*|git reflog (expire|delete)",
    ),
    (Purpose::Commit, "git commit"),
    (Purpose::Push, "git push"),
    (
        Purpose::Publish,
        "(gh|glab) [^ ]+ (create|merge|close|comment|edit|review|reopen)|(npm|pnpm|yarn|bun|cargo) publish",
    ),
    (
        Purpose::Nothing,
        "cd|echo|printf|true|false|sleep|wait|pwd|pushd|popd|clear|export|set|unset|exit|done|fi|seq|()",
    ),
    (
        Purpose::Look,
        "ls|ll|dir|cat|bat|head|tail|less|more|grep|egrep|fgrep|rg|ag|find|fd|tree|wc|which|whereis|type|file|stat|du|df|\
        ps|top|free|env|printenv|date|uname|id|whoami|hostname$|jq|yq|awk|gawk|sed|sort|uniq( -[^ ]+)*( [^ ]+)?$|cut|tr|\
        diff|cmp|xxd( -[a-qs-z][^ ]*| [0-9]+)*( [^ -][^ ]*)?$|hexdump|basename|dirname|realpath|readlink|history|man|help|lsof|ss|netstat|test|\\[|\\[\\[|\
        xargs|column|nl|strings|md5sum|sha256sum|Get-ChildItem|Get-Content|Select-String|Get-Location|\
        git$|git (status|diff|log|show|blame|ls-files|rev-parse|describe|shortlog|fetch( [^:]*)?$|grep|reflog|ls-remote|\
        ls-tree|cat-file|rev-list|merge-base|check-ignore|for-each-ref|show-ref|name-rev|whatchanged|diff-tree|var|version)|\
        git (branch|tag|remote)( -[alrv]+| --(all|remotes|verbose|show-current|sort=[^ ]+|format=[^ ]+))*\
        ($| (-l|--list|--contains|--merged|--no-merged|--points-at))|git remote (show|get-url)|\
        git (stash|worktree|notes) list|git (stash|notes) show|git submodule status|\
        git config( --(global|local|system))* (--get.*|--list|-l|get|list)|\
        gh (api|search|status)|(gh|glab) [^ ]+ (view|list|status|diff|checks|watch)|\
        kubectl (get|describe|logs|explain|version|top|api-resources)|\
        (docker|podman)( compose)? (ps|images|logs|inspect|version|info|stats)|\
        cargo (tree|metadata|search|info)|go (version|list|doc|env( [A-Z0-9_]+)*$)|\
        (npm|pnpm|yarn|bun) (ls|list|view|info|outdated|why)|(pip3?|uv pip|brew|apt|gem|conda) (list|show|info|search)|\
        (git|cargo|go|npm|pnpm|yarn|bun|node|python3?|rustc|docker|kubectl|gh|make|just|mise) --(version|help)$",
    ),
    (
        Purpose::Housekeeping,
        "mv|cp|rm|mkdir|touch|chmod|chown|ln|rmdir|unlink|truncate|patch|tee|git (add|mv|rm)|source|[.]|kill|pkill",
    ),
    (
        Purpose::Install,
        "(cargo|go|npm|pnpm|yarn|bun|pip3?|uv|uv pip|poetry|pipenv|apt|apt-get|brew|dnf|pacman|gem|bundle|conda|rustup|apk|\
        pdm|asdf|mise) (install|add|remove|uninstall|update|upgrade|sync|i|ci|up|rm|link|lock|use|component|target|get|mod)|\
        (npm|pnpm|yarn|bun)$",
    ),
    (
        Purpose::Test,
        "cargo (t|nextest|llvm-cov|miri)|pytest|py[.]test|nosetests|unittest|jest|vitest|mocha|ava|rspec|phpunit|ctest|\
        gotestsum|nextest|bats|pest|cypress|playwright|node( .*)? --test|(python3?|php|ruby|node)( [^ ]+)* tests?|\
        ((ba|z)?sh )?([^ ]*/)?[^ /]*(test|check)[^ /]*[.]sh|npm t",
    ),
    (
        Purpose::Lint,
        "(cargo|npm|pnpm|yarn) audit|cargo (deny|machete)|go vet|\
        (cargo fmt|ruff format|biome format|prettier|black|isort|gofmt|rustfmt|clang-format|goimports)( .*)? (--check|-c|-l)",
    ),
    (
        Purpose::Format,
        "(cargo|go) fmt|ruff format|biome format|prettier|black|isort|gofmt|rustfmt|clang-format|goimports",
    ),
    (
        Purpose::Lint,
        "eslint|flake8|pylint|golangci-lint|stylelint|shellcheck|hadolint|rubocop|oxlint|ruff|biome",
    ),
    (
        Purpose::Build,
        "cargo (b|check|c|doc|rustc)|go generate|(docker|podman)( [^ ]+)* build|tsc|vue-tsc|mypy|pyright|javac|gcc|g[+][+]|\
        clang|clang[+][+]|cc|rustc|cmake|ninja|webpack|esbuild|rollup|tsup",
    ),
    (
        Purpose::Run,
        "(cargo|go) (run|bench|tool|clean|new|init)|(npm|pnpm|yarn|bun) (config|pack|exec|init|create|login)",
    ),
    (Purpose::Test, "TASK((?i)[^ ]*(test|spec|e2e|coverage)[^ ]*|check|verify|ci)"),
    (Purpose::Lint, "TASK(?i)[^ ]*(lint|clippy|analyze)[^ ]*"),
    (Purpose::Build, "TASK((?i)[^ ]*(build|compile|type-?check|tsc|package|assemble)[^ ]*|all)|TASKS$"),
    (Purpose::Format, "TASK(?i)[^ ]*(format|fmt|prettier)[^ ]*"),
    (Purpose::Install, "TASK(?i)[^ ]*(install|restore|deps[.]get)[^ ]*"),
    (Purpose::Task, "TASK[^ ]+"),
];

/// Programs that run tasks by name.
const TASK_RUNNERS: &str = "(((npm|pnpm|yarn|bun|deno|turbo|nx)( run| run-script)?|mise run|mise r|make|gmake|just|task|rake|\
    mage|invoke|composer|mvn|mvnw|gradle|gradlew|dotnet|swift|mix|bazel|zig|flutter|sbt|lein|stack|cabal|xcodebuild|rails|\
    artisan|tox|nox|vite|next|cargo|go)( -[^ ]+)*)";

/// Commands that run the command behind them and their options.
const WRAPPERS: &str = "sudo|env|xargs|timeout|gtimeout|nice|ionice|stdbuf|nohup|command|exec|npx|bunx|time|xvfb-run|then|do|\
    else|rtk|uv run|poetry run|pipenv run|hatch run|pdm run|rye run|bundle exec|pnpm exec|yarn exec|pnpm dlx|yarn dlx|\
    python -m|python3 -m|py -m|mise x|mise exec";

/// Programs whose options come before the subcommand, or the command that they run, and those options that take a value.
const LEADING_OPTIONS: [(&str, &str); 13] = [
    ("sudo", "-u|-g|-h|-p|-C|-D|-R|-T|-U|-r|-t"),
    ("env", "-u|-C|-S"),
    ("xargs", "-I|-n|-P|-L|-d|-s|-a|-E"),
    ("timeout|gtimeout", "-k|-s"),
    ("nice|ionice|stdbuf", "-n|-c|-p|-i|-o|-e"),
    ("npx|bunx", "-p|--package"),
    ("uv", "--with|--extra|--group|--python|--package|--project|--directory"),
    ("git", "-C|-c|--git-dir|--work-tree"),
    ("gh|glab", "-R|--repo"),
    ("kubectl|docker|podman", "-n|--namespace|--context|-H"),
    ("npm|pnpm|yarn|bun", "--filter|-F|-C|--prefix|--cwd|-w|--workspace|--dir"),
    ("make|gmake|just|task|mise", "-C|-f|-d|-t"),
    ("cargo|go|apt|apt-get|pip|pip3|brew|dnf", "--manifest-path|-C|--config"),
];

/// Options in [`LEADING_OPTIONS`] of the command's program that take a value; `None` for other programs.
fn valued_options(words: &[String]) -> Option<&'static str> {
    let program = file_name(words.first()?);
    LEADING_OPTIONS.iter().find(|(programs, _)| is_one_of(program, programs)).map(|(_, options)| *options)
}

/// The words from `at`, without the options of the program that stand there.
fn behind_options(words: &[String], at: usize) -> &[String] {
    let valued = valued_options(words).unwrap_or_default();
    let mut rest = &words[at..];
    while let Some(option) = rest.first().filter(|word| word.starts_with(['-', '+'])) {
        if matches!(option.as_str(), "--version" | "--help") {
            break;
        }
        rest = rest.get(if is_one_of(option, valued) { 2 } else { 1 }..).unwrap_or_default();
    }
    rest
}

/// The words of a command behind `sudo`, `timeout 5`, `npx`, `uv run`, `FOO=1` and their like.
pub fn unwrapped(words: &[String]) -> &[String] {
    let [first, more @ ..] = words else { return words };
    let program = file_name(first);
    let phrase = more.first().map(|second| format!("{program} {second}")).unwrap_or_default();
    let inner = if is_assignment(first) {
        more
    } else if program == "mise" && is_one_of(&phrase, WRAPPERS) {
        let end = words.iter().position(|word| word == "--");
        &words[end.map_or(2, |end| end + 1)..]
    } else if is_one_of(&phrase, WRAPPERS) {
        behind_options(words, 2)
    } else if is_one_of(program, WRAPPERS) {
        let inner = behind_options(words, 1);
        &inner[inner.iter().take_while(|word| is_duration(word)).count()..]
    } else {
        return words;
    };
    if inner.is_empty() { words } else { unwrapped(inner) }
}

/// True for numbers, with or without a unit of time.
pub(crate) fn is_duration(word: &str) -> bool {
    word.trim_end_matches(['s', 'm', 'h', 'd']).parse::<f64>().is_ok()
}

/// True for `NAME=value`.
pub(crate) fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The program and its arguments on one line: without options in front of a subcommand, with `␣` for blanks inside a word.
fn normal_form(words: &[String]) -> String {
    let Some((program, arguments)) = words.split_first() else { return String::new() };
    let arguments = if valued_options(words).is_some() { behind_options(words, 1) } else { arguments };
    let argument = |word: &String| format!(" {}", word.replace(char::is_whitespace, "␣"));
    file_name(program).to_owned() + &arguments.iter().map(argument).collect::<String>()
}

/// Returns the purpose of a command.
pub fn purpose(simple: &Simple) -> Purpose {
    static ROWS: LazyLock<RegexSet> = LazyLock::new(|| {
        let runner =
            |row: &str| row.replace("TASKS", TASK_RUNNERS).replace("TASK", &format!("{TASK_RUNNERS} "));
        let rows = PURPOSES.iter().map(|(_, row)| format!("^(?:{})(?: |$)", runner(row)));
        RegexSet::new(rows).unwrap_or_else(|_| RegexSet::empty())
    });
    let found = ROWS.matches(&normal_form(unwrapped(&simple.words))).iter().next();
    let purpose = found.map_or(Purpose::Run, |row| PURPOSES[row].0);
    // A command that only prints writes if it prints into a file.
    let writes = simple.writes.iter().any(|(target, _)| !target.starts_with("/dev/"));
    if writes && purpose <= Purpose::Look { Purpose::Housekeeping } else { purpose }
}

/// True if every part of the line is known to read. Any other line may have changed something and is never routine,
/// regardless of its output.
pub fn reads_only(line: &CommandLine) -> bool {
    let is_reader = |simple: &Simple| {
        let substitutes = simple.words.iter().any(|word| word.contains("$(") || word.contains('`'));
        !substitutes && !simple.background && purpose(simple) <= Purpose::Look
    };
    !line.is_compound && !line.commands.is_empty() && line.commands.iter().all(is_reader)
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
            ("git checkout -b topic", Purpose::Run),
            ("git branch --show-current", Purpose::Look),
            ("git status --short", Purpose::Look),
            ("gh pr create --title x", Purpose::Publish),
            ("gh pr view 3", Purpose::Look),
            ("ls -la", Purpose::Look),
            ("sed -n 1,5p a", Purpose::Look),
            ("sed -i s/a/b/ a.txt", Purpose::Housekeeping),
            ("cat > a.txt", Purpose::Housekeeping),
            ("echo hi", Purpose::Nothing),
            ("docker compose up -d", Purpose::Run),
            ("python3 -c 'print(1)'", Purpose::Run),
            ("sudo", Purpose::Run),
            ("pnpm --filter web test", Purpose::Test),
            ("apt-get -y install jq", Purpose::Install),
            ("cargo +nightly fmt -- --check", Purpose::Lint),
            ("ls | xargs rm", Purpose::Look),
            ("xargs rm", Purpose::Housekeeping),
            ("source .env", Purpose::Housekeeping),
            ("python3 -c 'import test'", Purpose::Run),
        ] {
            assert_eq!(purpose(&split(line).commands[0]), expected, "{line}");
        }
    }

    #[test]
    fn readers_are_recognised_behind_wrappers_and_pipes() {
        for line in [
            "ls -la",
            "cd /x && pwd",
            "cd a && git status --short",
            "git -C /x log --oneline | head -5",
            "rg foo | wc -l",
            "env FOO=1 cat a",
            "sudo cat /etc/hosts",
            "timeout 5 ls",
            "rtk git diff",
            "mise x -- git log",
            "FOO=1 ls",
            "find . -name '*.rs' | xargs grep -l foo",
            "xargs -I{} -n 1 cat {}",
            "sed -n 1,5p a",
            "awk '{print $1}' a",
            "git branch --show-current",
            "git branch -vv",
            "git stash list",
            "git config --get user.name",
            "gh pr view 3",
            "gh api repos/a/b/pulls",
            "kubectl get pods",
            "echo hi 2>/dev/null",
            "cat a 2>&1",
            "sort a | uniq -c",
            "awk -F'|' '{print $2}' a",
            "sed -n '/warn/p' a",
            "git --no-pager branch -a",
            "git -C x branch --merged main",
            "kubectl -n web get pods",
            "cargo --version",
        ] {
            assert!(reads_only(&split(line)), "{line}");
        }
    }

    #[test]
    fn nothing_that_writes_is_a_reader() {
        for line in [
            "grep -l foo | xargs sed -i s/a/b/",
            "sed -i s/a/b/ f",
            "sed -ri s/a/b/ f",
            "sed -n -i.bak p f",
            "perl -pi -e s/a/b/ f",
            "gh api -X DELETE repos/a/b",
            "gh api repos/a/b -f title=x",
            "gh api --method=POST x",
            "source x.sh",
            ". x.sh",
            "kubectl apply -f x",
            "echo a > f",
            "cat a >> f",
            "ls | tee f",
            "cat <<EOF > f\nx\nEOF",
            "find . -delete",
            "find . -exec rm {} ;",
            "git branch -D x",
            "git branch topic",
            "git tag v1",
            "git stash",
            "git checkout -b x",
            "git commit -m x",
            "git config user.name x",
            "git worktree add x",
            "sort -o f f",
            "awk '{print > \"f\"}' a",
            "yq -i .a f",
            "xargs rm",
            "sudo rm f",
            "mise x -- rm f",
            "rtk sed -i s/a/b/ f",
            "env rm f",
            "timeout 5 rm f",
            "bash -c 'rm f'",
            "echo $(rm f)",
            "cat `rm f`",
            "(rm f)",
            "for f in *; do rm $f; done",
            "ls & rm f",
            "curl -X POST x",
            "python3 -c 'print(1)'",
            "npm install",
            "docker rm x",
            "sed 's/a/b/w out' f",
            "git diff --output=f",
            "fd -x rm",
            "sed --in-place=.bak s/a/b/ f",
            "sed -n -Ei s/a/b/ f",
            "sed -f script.sed f",
            "sed -n '1,3w out' f",
            "sed 's|a|b|gw out' f",
            "sed 's/a/rm f/e' f",
            "perl -i.bak -pe s/a/b/ f",
            "gh api repos/a/b -XDELETE",
            "gh -R a/b pr merge 3",
            "gh pr checkout 3",
            "git ls-files -z | xargs -0 -n 1 -P 4 rm",
            "xargs --max-args 1 rm",
            "sudo -u date rm f",
            "env -u date rm f",
            "timeout -s KILL 5 rm f",
            "mise x node@20 -- rm f",
            "kubectl -n get delete pod x",
            "git reflog expire --all",
            "git branch -v topic",
            "git branch --unset-upstream",
            "git -C x tag v1",
            "git fetch origin main:main",
            "git add f",
            "git remote prune origin",
            "go env -w A=b",
            "uniq a b",
            "date -s tomorrow",
            "npm config set a b",
            "npm audit fix",
            "awk 'BEGIN { print \"x\" | \"sh\" }'",
            "awk -i inplace 1 f",
            "sort --output=f f",
            "ls | sudo tee -a f",
            "> f",
            "dd of=f",
            "",
        ] {
            assert!(!reads_only(&split(line)), "{line}");
        }
    }
}
