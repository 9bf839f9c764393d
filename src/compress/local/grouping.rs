//! A turn's steps as a handful of units, each of one intent: a piece of work with what verified it, a repair with what
//! was broken, an operation, or all that was only looked at.

use super::commands::Command;
use super::edits::Edit;
use super::events::{Act, Step};
use super::place::{FileKind, kind_of, subject};
use super::programs::Purpose;

/// Steps that belong together.
#[derive(Debug)]
pub(super) struct Unit<'s> {
    pub role: Role,
    pub steps: Vec<&'s Step<'s>>,
}

/// What a unit is, before its words are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Files were changed.
    Work,
    /// Something failed first, and then did not.
    Repair,
    /// Something was done without changing files: a commit, an installation.
    Operation,
    /// Knowledge that came from pages and subagents while other work was done.
    Research,
    /// Nothing was done but to look, ask and run.
    Exploration,
}

/// A command that failed and later did not, and what was done in between.
#[derive(Debug)]
pub(super) struct Repair<'s> {
    pub broken: &'s Command,
    pub mended: &'s Command,
    pub edits: Vec<&'s Edit>,
    /// Commands in between that may be what helped.
    pub remedies: Vec<&'s Command>,
    /// Other errors that the same command ended with on the way.
    pub errors: Vec<&'s str>,
}

/// More observations than this from one turn help nobody.
const MOST_UNITS: usize = 6;

/// Groups the steps of a turn.
pub(super) fn units<'s>(steps: &'s [Step<'s>]) -> Vec<Unit<'s>> {
    let mut units = Vec::new();
    let mut research = Vec::new();
    for segment in segments(steps) {
        if segment.iter().all(|step| step.edits().is_empty()) {
            units.extend(idle_unit(segment));
            continue;
        }
        let (found_out, rest): (Vec<_>, Vec<_>) = segment.into_iter().partition(|step| step.is_research());
        research.extend(found_out);
        units.extend(work_units(rest));
    }
    if !research.is_empty() {
        units.push(Unit { role: Role::Research, steps: research });
    }
    merge_surplus(&mut units);
    units
}

/// Cut where an edit follows a commit: the commit closed what came before it.
fn segments<'s>(steps: &'s [Step<'s>]) -> Vec<Vec<&'s Step<'s>>> {
    let mut segments: Vec<Vec<&Step<'_>>> = vec![Vec::new()];
    // What follows a commit belongs to the next piece of work if there is one, else to this.
    let mut between: Vec<&Step<'_>> = Vec::new();
    let mut committed = false;
    for step in steps {
        if matches!(step.act, Act::Nothing) {
            continue;
        }
        let current = segments.len() - 1;
        let commits = step.command().is_some_and(|command| !command.commits.is_empty());
        let follows_commit = step.command().is_some_and(|command| {
            matches!(command.purpose, Purpose::Push | Purpose::Publish | Purpose::Git)
        });
        if committed && !step.edits().is_empty() && !commits {
            between.push(step);
            segments.push(std::mem::take(&mut between));
            committed = false;
        } else if committed && !commits && !follows_commit {
            between.push(step);
        } else {
            segments[current].append(&mut between);
            segments[current].push(step);
            committed |= commits;
        }
    }
    if let Some(last) = segments.last_mut() {
        last.append(&mut between);
    }
    segments.retain(|segment| !segment.is_empty());
    segments
}

fn idle_unit<'s>(steps: Vec<&'s Step<'s>>) -> Option<Unit<'s>> {
    let mended = repairs(&steps)
        .iter()
        .any(|repair| !repair.remedies.is_empty() || repair.broken.line != repair.mended.line);
    let role = match (mended, steps.iter().any(|step| step.acts())) {
        (true, _) => Role::Repair,
        (false, true) => Role::Operation,
        (false, false) => Role::Exploration,
    };
    (!steps.is_empty()).then_some(Unit { role, steps })
}

/// One unit, unless a repair in it is a story of its own.
fn work_units<'s>(steps: Vec<&'s Step<'s>>) -> Vec<Unit<'s>> {
    if steps.is_empty() {
        return Vec::new();
    }
    let Some((from, to)) = first_repair(&steps) else { return vec![Unit { role: Role::Work, steps }] };
    let (before, inside, after) =
        (subjects(&steps[..from]), subjects(&steps[from..=to]), subjects(&steps[to + 1..]));
    let broke_by_building = steps[from]
        .command()
        .is_some_and(|command| matches!(command.purpose, Purpose::Build | Purpose::Lint));
    if inside.is_empty() {
        return vec![Unit {
            role: if before.is_empty() && after.is_empty() { Role::Repair } else { Role::Work },
            steps,
        }];
    }
    if before.is_empty() {
        if is_apart(&after, &inside) {
            let mut units = work_units(steps[to + 1..].to_vec());
            units.insert(0, Unit { role: Role::Repair, steps: steps[..=to].to_vec() });
            return units;
        }
        return vec![Unit { role: Role::Repair, steps }];
    }
    if broke_by_building || !is_apart(&inside, &before) {
        // A slip on the way: told as part of the work that it happened in.
        return vec![Unit { role: Role::Work, steps }];
    }
    // The run that ends the repair is also the one that verifies the work around it.
    let around: Vec<&Step<'_>> = steps[..from].iter().chain(&steps[to..]).copied().collect();
    vec![
        Unit { role: Role::Work, steps: around },
        Unit { role: Role::Repair, steps: steps[from..=to].to_vec() },
    ]
}

/// Where the first repair begins and ends.
fn first_repair(steps: &[&Step<'_>]) -> Option<(usize, usize)> {
    steps.iter().enumerate().find_map(|(at, step)| {
        let broken = step.command().filter(|command| command.is_failure())?;
        let mended = steps[at + 1..].iter().position(|later| is_mended_by(broken, step, later))?;
        Some((at, at + 1 + mended))
    })
}

/// A subagent's runs tell nothing about those of the session around it.
fn is_mended_by(broken: &Command, step: &Step<'_>, later: &Step<'_>) -> bool {
    later.event.agent_type == step.event.agent_type
        && later.command().is_some_and(|command| command.repairs(broken))
}

/// What the changed files are about; prose goes with anything.
fn subjects(steps: &[&Step<'_>]) -> Vec<String> {
    let edits = steps.iter().flat_map(|step| step.edits());
    let coded = edits.filter(|edit| !matches!(kind_of(&edit.path), FileKind::Document));
    let mut subjects: Vec<String> = coded.map(|edit| subject(&edit.path)).collect();
    subjects.sort();
    subjects.dedup();
    subjects
}

fn is_apart(subjects: &[String], others: &[String]) -> bool {
    !subjects.is_empty() && subjects.iter().all(|subject| !others.contains(subject))
}

/// Every command of the unit that failed and later did not. The same command failing again on the way is the same story.
pub(super) fn repairs<'s>(steps: &[&'s Step<'s>]) -> Vec<Repair<'s>> {
    let mut repairs: Vec<Repair<'s>> = Vec::new();
    let mut done: Vec<(&str, usize)> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let Some(broken) = step.command().filter(|command| command.is_failure()) else { continue };
        if done.iter().any(|(key, until)| *key == broken.key && at < *until) {
            continue;
        }
        let later = steps[at + 1..].iter().position(|later| is_mended_by(broken, step, later));
        let Some((until, mended)) =
            later.and_then(|offset| Some((at + 1 + offset, steps[at + 1 + offset].command()?)))
        else {
            continue;
        };
        let between = &steps[at + 1..until];
        let edits = between.iter().flat_map(|step| step.edits()).collect();
        let helps = |command: &&&Command| {
            matches!(command.purpose, Purpose::Install | Purpose::Git | Purpose::Files | Purpose::Run)
        };
        let commands: Vec<&Command> = between.iter().filter_map(|step| step.command()).collect();
        let remedies =
            commands.iter().filter(helps).filter(|command| !command.is_failure()).copied().collect();
        let first = broken.error.as_ref().map(|(_, signature)| signature);
        let again = commands
            .iter()
            .filter(|command| command.key == broken.key)
            .filter_map(|command| command.error.as_ref());
        let other = again.filter(|(_, signature)| Some(signature) != first);
        let errors = other.map(|(error, _)| error.as_str()).collect();
        repairs.push(Repair { broken, mended, edits, remedies, errors });
        done.push((&broken.key, until));
    }
    repairs
}

/// Commands that failed and were not seen to work again.
pub(super) fn unrepaired<'s>(steps: &[&'s Step<'s>]) -> Vec<&'s Command> {
    let mut open: Vec<&Command> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let Some(broken) = step.command().filter(|command| command.is_failure()) else { continue };
        let settled =
            |later: &&Step<'_>| is_mended_by(broken, step, later) || settles_conflict(broken, later);
        let mended = steps[at + 1..].iter().any(settled);
        open.retain(|known| known.key != broken.key);
        if !mended {
            open.push(broken);
        }
    }
    open
}

/// A merge that stopped at a conflict is not broken once it is committed.
fn settles_conflict(broken: &Command, later: &Step<'_>) -> bool {
    let merges = matches!(
        broken.key.as_str(),
        "git merge" | "git rebase" | "git pull" | "git cherry-pick" | "git revert"
    );
    let goes_on = |command: &Command| !command.commits.is_empty() || command.line.contains("--continue");
    merges && later.command().is_some_and(goes_on)
}

fn merge_surplus(units: &mut Vec<Unit<'_>>) {
    while units.len() > MOST_UNITS {
        let Some(last) = units.pop() else { return };
        if let Some(target) = units.last_mut() {
            target.steps.extend(last.steps);
            let edited = target.steps.iter().any(|step| !step.edits().is_empty());
            target.role = if edited { Role::Work } else { Role::Operation };
        }
    }
}
