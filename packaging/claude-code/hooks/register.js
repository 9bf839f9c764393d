// The mod of the plugin, for clients that run function hooks (2.1.287 and later). It adds what the settings hooks cannot see,
// turns that the user interrupts and tool calls that fail before they run, and a pane over the memory: /mem-pane. If the user chose
// the provider `session`, it also has the session's model answer requests of the service.
//
// Everything goes through our own programs, with a deadline, because a request of the client itself cannot be given up: one that
// hangs would hold up the end of a session. No hook of the session waits for them.

import { drawn, emptyPane } from './pane.js'

const PANE = 'memory'
// Longest run of a program.
const DEADLINE_MS = 3000
// Time for the hook of a failed tool, which knows more about the call, to be first.
const HOOK_MS = 250

// Wait of the service for a job, and the longest run of the program that asks for one.
const JOB_WAIT_MS = 4000
const JOB_DEADLINE_MS = 6000
// Times that a session asks in vain after a job: the service repeats one whose answer it cannot use, ten seconds later.
const ASKS_AFTER_A_JOB = 3

// The parsed answer of the service; an error carries a sentence for the user.
async function ask($, method, target, { body, timeoutMs = DEADLINE_MS } = {}) {
  const sent = body === undefined ? [] : ['--stdin']
  const ran = await $.process.run([`${$.plugin.root}/scripts/run`, 'claude-mem', 'call', method, target, ...sent], {
    timeoutMs,
    ...(body !== undefined && { stdin: JSON.stringify(body) }),
  })
  const answer = parsedOf(ran.stdout)
  if (ran.exitCode === 0 && answer !== undefined) return answer
  throw new Error(answer?.error?.message ?? 'the service does not answer; run `claude-mem doctor`')
}

function parsedOf(text) {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

// Passes an event of the session to the hook program, as the client does with its own.
async function record($, verb, event) {
  const [session_id, cwd, env] = await Promise.all([$.session.id(), $.session.cwd(), $.process.hookEnv()])
  const stdin = JSON.stringify({ session_id, cwd, ...event })
  await $.process.run([`${$.plugin.root}/scripts/run`, 'claude-mem-hook', verb], { stdin, env, timeoutMs: DEADLINE_MS })
}

// A failed call as the hook of a failed tool would report it. The service stores a call once, so that one that the hook did
// report is ignored.
function failureOf(call, ran) {
  const { tool, tool_use_id, agentId, ...input } = call
  const error = ran.deny ?? ran.text ?? 'failed'
  const event = { hook_event_name: 'PostToolUseFailure', tool_name: String(tool), tool_use_id, tool_input: input, error }
  return agentId === undefined ? event : { ...event, agent_id: agentId }
}

function query(parameters) {
  const pairs = Object.entries(parameters).map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
  return pairs.join('&')
}

async function searched($, pane, text) {
  const q = text.trim()
  if (q === '') return recent($, pane)
  const path = `/api/search?${query({ q, project_path: await $.session.cwd(), limit: 20 })}`
  const { hits } = await ask($, 'GET', path)
  return { ...pane, view: 'list', title: `Found for “${q}”`, query: q, rows: hits, note: hits.length === 0 ? 'Nothing was found.' : '' }
}

async function recent($, pane) {
  const { name } = await ask($, 'GET', `/api/project?${query({ path: await $.session.cwd() })}`)
  const { sessions } = await ask($, 'GET', `/api/recent?${query({ project: name, limit: 15 })}`)
  const rows = sessions.map(session => ({ ref: '', type: 'session', age: session.age, title: session.title ?? session.request ?? session.session_id }))
  return { ...pane, view: 'list', title: 'Recent sessions', query: '', rows, note: rows.length === 0 ? 'Nothing is remembered yet.' : '' }
}

async function around($, pane, ref) {
  const { moments } = await ask($, 'GET', `/api/timeline?${query({ anchor: ref, before: 8, after: 8 })}`)
  return { ...pane, view: 'list', title: `Around #${ref}`, rows: moments, note: '' }
}

async function opened($, pane, ref) {
  const { memories } = await ask($, 'GET', `/api/memories?${query({ ids: ref })}`)
  return { ...pane, view: 'memory', memory: memories[0], note: memories.length === 0 ? 'This memory is gone.' : '' }
}

async function context($, pane) {
  const cwd = await $.session.cwd()
  const given = await ask($, 'GET', `/api/context?${query({ project_path: cwd, cwd })}`)
  return { ...pane, view: 'text', title: `Context of a session that starts now (${given.tokens} tokens)`, text: given.context, note: '' }
}

async function forgotten($, pane, ref) {
  await ask($, 'DELETE', `/api/observations/${encodeURIComponent(ref)}`)
  return { ...pane, forgotten: ref, note: `#${ref} is forgotten.` }
}

async function restored($, pane, ref) {
  await ask($, 'POST', `/api/observations/${encodeURIComponent(ref)}/restore`)
  return { ...pane, forgotten: '', note: `#${ref} is back.` }
}

// Has the session's model answer what the service asks, one request at a time, until there is no more. False if another provider
// is configured. The service decides what may be spent, and checks the answers.
async function work($) {
  for (let asks = 1; asks > 0; ) {
    const target = `/api/session-jobs?${query({ wait_ms: JOB_WAIT_MS })}`
    const { is_chosen, job } = await ask($, 'POST', target, { timeoutMs: JOB_DEADLINE_MS })
    if (!is_chosen) return false
    if (job === null) {
      asks -= 1
    } else {
      const body = await answered($, job)
      await ask($, 'POST', `/api/session-jobs/${job.id}`, { body })
      asks = ASKS_AFTER_A_JOB
    }
  }
  return true
}

async function answered($, { model, system, prompt, max_output_tokens, timeout_ms }) {
  const request = { model, system, prompt, maxTokens: max_output_tokens, timeoutMs: timeout_ms }
  const made = await $.model.complete(request).catch(error => ({ isAnswered: false, reason: error.message }))
  if (made.isAnswered) return { text: made.text, usage: made.usage }
  return { error: [made.reason, made.error].filter(part => part !== undefined).join(': '), usage: made.usage ?? {} }
}

export function register(on, options) {
  if (options.mod === false) return
  let pane = emptyPane()
  let failures = []
  // Whether to ask for work: not where the session ends with its turn, and not after the service said that it has none.
  let works = false
  let isWorking = false

  on('session.start', async ($, e, next) => {
    works = e.isInteractive
    if (e.isInteractive) {
      void $.command.register({ name: 'mem-pane', description: 'Search and browse the memory in a pane', argumentHint: '[topic]' }).catch(() => undefined)
    }
    return next(e)
  })

  on('tool.call', async ($, e, next) => {
    const ran = await next(e)
    if (ran.deny !== undefined || ran.isError === true) {
      failures.push(failureOf(e, ran))
      $.clock.after(HOOK_MS, () => {
        for (const failure of failures.splice(0)) void record($, 'save', failure).catch(() => undefined)
      })
    }
    return ran
  })

  on('turn.complete', async ($, e, next) => {
    for (const failure of failures.splice(0)) void record($, 'save', failure).catch(() => undefined)
    if (e.agentId === undefined && e.isAborted) {
      void record($, 'summary', { hook_event_name: 'TurnAborted', last_assistant_message: e.answer }).catch(() => undefined)
    }
    if (e.agentId === undefined && works && !isWorking) {
      isWorking = true
      void work($)
        .then(isChosen => { works = isChosen }, () => undefined)
        .finally(() => { isWorking = false })
    }
    return next(e)
  })

  on('command.run', { command: 'mem-pane' }, async ($, e) => {
    pane = await searched($, pane, e.args).catch(error => ({ ...pane, note: error.message }))
    const { isPlaced, reason } = await $.ui.open({ id: PANE, title: 'Memory', focus: true, closeOnEscape: true })
    return { text: isPlaced ? 'The memory is open in a pane.' : `The pane cannot be shown: ${reason}` }
  })

  on('ui.render', { component: 'Pane', requestId: PANE }, ($, e) => {
    // Applies a change, or shows why it failed.
    const change = made =>
      made.then(
        changed => { pane = changed; $.ui.invalidate('ui.render') },
        error => { pane = { ...pane, note: error.message }; $.ui.invalidate('ui.render') },
      )
    const actions = {
      search: text => change(searched($, pane, text)),
      recent: () => change(recent($, pane)),
      context: () => change(context($, pane)),
      open: ref => change(opened($, pane, ref)),
      around: ref => change(around($, pane, ref)),
      forget: ref => change(forgotten($, pane, ref)),
      restore: ref => change(restored($, pane, ref)),
    }
    return drawn(h, $.ui.resolve(e), pane, actions, e.viewport)
  })
}
