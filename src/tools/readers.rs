//! Commands that only read. Any other command may have changed something and is never routine, regardless of its output.

use super::path::file_name;
use super::programs::unwrapped;
use super::shell::{CommandLine, Simple};
use crate::text::each;

/// Programs that only read, with any arguments.
const READERS: &str = "ls|ll|dir|cat|bat|head|tail|less|more|grep|egrep|fgrep|rg|ag|tree|wc|which|whereis|type|file|stat|\
    du|df|ps|free|printenv|date|uname|id|whoami|hostname|jq|uniq|cut|tr|diff|cmp|xxd|hexdump|basename|dirname|realpath|\
    readlink|history|man|lsof|ss|netstat|test|[|[[|column|nl|strings|md5sum|sha256sum|cd|echo|printf|true|false|sleep|\
    wait|pwd|pushd|popd|clear|env|export|set|unset|seq|Get-ChildItem|Get-Content|Select-String|Get-Location";

/// Subcommands of git that read. `fetch` moves remote references only.
const GIT_READERS: &str = "status|diff|log|show|blame|ls-files|rev-parse|describe|shortlog|fetch|grep|reflog|ls-remote|\
    ls-tree|cat-file|rev-list|merge-base|check-ignore|for-each-ref|show-ref|name-rev|whatchanged|diff-tree|var|version";

/// True if every part of the line is known to read.
pub fn reads_only(line: &CommandLine) -> bool {
    !line.is_compound && !line.commands.is_empty() && line.commands.iter().all(is_reader)
}

fn is_reader(simple: &Simple) -> bool {
    let writes = simple.writes.iter().any(|(target, _)| !target.starts_with("/dev/"));
    let substitutes = simple.words.iter().any(|word| word.contains("$(") || word.contains('`'));
    !writes && !substitutes && !simple.background && reads(unwrapped(&simple.words))
}

fn reads(words: &[String]) -> bool {
    let Some((program, arguments)) = words.split_first() else { return true };
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let has = |flags: &[&str]| arguments.iter().any(|word| flags.contains(word));
    let short = |flag: char| {
        arguments.iter().any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(flag))
    };
    let long = |start: &str| arguments.iter().any(|word| word.starts_with(start));
    let sub = |at: usize| {
        arguments.iter().copied().filter(|word| !word.starts_with('-')).nth(at).unwrap_or_default()
    };
    match file_name(program) {
        "xargs" => xargs_reads(&arguments),
        "sed" => !short('i') && !long("--in-place") && !arguments.iter().any(|word| sed_writes(word)),
        "awk" | "gawk" => {
            !short('i') && !arguments.iter().any(|word| word.contains('>') || word.contains("system("))
        }
        "yq" => !short('i') && !long("--inplace"),
        "sort" => !short('o') && !long("--output"),
        "find" => !has(&["-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprintf", "-fls"]),
        "fd" => !short('x') && !short('X') && !long("--exec"),
        "git" => git_reads(&arguments),
        "gh" | "glab" => gh_reads(&arguments),
        "kubectl" => each("get|describe|logs|explain|version|top|api-resources").any(|known| known == sub(0)),
        "docker" | "podman" => each("ps|images|logs|inspect|version|info|stats").any(|known| known == sub(0)),
        "cargo" => each("tree|metadata|search|info|--version")
            .any(|known| known == arguments.first().copied().unwrap_or_default()),
        "go" => each("env|version|list|doc").any(|known| known == sub(0)),
        "npm" | "pnpm" | "yarn" => each("ls|list|view|info|outdated|why").any(|known| known == sub(0)),
        name => each(READERS).any(|known| known == name),
    }
}

/// `w file` and `s/a/b/w file` write, `e` runs.
fn sed_writes(word: &str) -> bool {
    word.contains("/w ") || word.starts_with("w ") || word.ends_with("/e")
}

/// xargs reads if the command behind its options does; without one it echoes.
fn xargs_reads(arguments: &[&str]) -> bool {
    let mut rest = arguments;
    while let Some((first, behind)) = rest.split_first() {
        let takes_value = matches!(*first, "-I" | "-n" | "-P" | "-L" | "-d" | "-s" | "-a" | "-E");
        rest = match first.strip_prefix('-') {
            Some(_) if takes_value => behind.get(1..).unwrap_or_default(),
            Some(_) => behind,
            None => break,
        };
    }
    let words: Vec<String> = rest.iter().map(|word| (*word).to_owned()).collect();
    reads(unwrapped(&words))
}

fn git_reads(arguments: &[&str]) -> bool {
    let mut rest = arguments;
    while let Some((first, behind)) = rest.split_first() {
        rest = match *first {
            "-C" | "-c" | "--git-dir" | "--work-tree" => behind.get(1..).unwrap_or_default(),
            option if option.starts_with('-') => behind,
            _ => break,
        };
    }
    let Some((sub, arguments)) = rest.split_first() else { return true };
    let plain = || arguments.iter().filter(|word| !word.starts_with('-')).count();
    let lists =
        || arguments.iter().any(|word| matches!(*word, "list" | "--list" | "-l" | "show" | "-v" | "-vv"));
    let writes = arguments.iter().any(|word| word.starts_with("--output"));
    match *sub {
        "branch" | "tag" | "remote" => {
            let changes = arguments.iter().any(|word| {
                matches!(
                    *word,
                    "-d" | "-D"
                        | "-m"
                        | "-M"
                        | "-c"
                        | "-f"
                        | "--delete"
                        | "--move"
                        | "add"
                        | "remove"
                        | "set-url"
                )
            });
            !changes
                && (plain() == 0 || lists() || arguments.iter().any(|word| word.starts_with("--contains")))
        }
        "stash" | "worktree" | "notes" | "submodule" => lists() || arguments.first() == Some(&"status"),
        "config" => {
            arguments.iter().any(|word| word.starts_with("--get") || matches!(*word, "--list" | "-l" | "get"))
        }
        sub => !writes && each(GIT_READERS).any(|known| known == sub),
    }
}

fn gh_reads(arguments: &[&str]) -> bool {
    let sub = |at: usize| {
        arguments.iter().copied().filter(|word| !word.starts_with('-')).nth(at).unwrap_or_default()
    };
    if sub(0) == "api" {
        let sends = |word: &&str| {
            ["-X", "-f", "-F", "--method", "--field", "--raw-field", "--input"]
                .iter()
                .any(|flag| word.starts_with(flag))
        };
        return !arguments.iter().any(sends);
    }
    each("view|list|status|diff|checks|watch").any(|known| known == sub(1))
        || matches!(sub(0), "search" | "status")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::shell::split;

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
            "",
        ] {
            assert!(!reads_only(&split(line)), "{line}");
        }
    }
}
