// Connects OpenCode to claude-mem: passes prompts, tool calls and turns to the hook program, and its answers to the model.
// Installed by `claude-mem install --agent opencode`, which fills in the program's path. A program that fails or takes too
// long is ignored.

import { spawn } from 'node:child_process'

const HOOK = '@HOOK@'
const DATA = '@DATA@'
const DEADLINE_MS = 5000

// The program's output; empty if it fails.
function run(verb, payload) {
  return new Promise(resolve => {
    const env = DATA === '' ? process.env : { ...process.env, CLAUDE_MEM_HOME: DATA }
    const child = spawn(HOOK, [verb, '--agent', 'opencode'], { env, stdio: ['pipe', 'pipe', 'ignore'] })
    const timer = setTimeout(() => child.kill('SIGKILL'), DEADLINE_MS)
    let text = ''
    child.stdout.on('data', piece => { text += piece })
    child.stdin.on('error', () => {})
    child.on('error', () => { clearTimeout(timer); resolve('') })
    child.on('close', () => { clearTimeout(timer); resolve(text) })
    child.stdin.end(JSON.stringify(payload))
  })
}

function contextIn(text) {
  try {
    return JSON.parse(text).hookSpecificOutput?.additionalContext ?? ''
  } catch {
    return ''
  }
}

const textOf = parts => parts.filter(part => part.type === 'text' && !part.synthetic).map(part => part.text).join('\n')

export const ClaudeMem = async ({ directory }) => {
  const contexts = new Map()
  const assistants = new Set()
  const closings = new Map()
  const event = (session_id, hook_event_name, fields) => ({ session_id, cwd: directory, hook_event_name, ...fields })

  return {
    'chat.message': async ({ sessionID }, output) => {
      if (!contexts.has(sessionID)) {
        contexts.set(sessionID, contextIn(await run('context', event(sessionID, 'SessionStart', { source: 'startup' }))))
      }
      const prompt = textOf(output.parts)
      const recalled = contextIn(await run('new', event(sessionID, 'UserPromptSubmit', { prompt, prompt_id: output.message.id })))
      if (recalled !== '') {
        const id = `prt_${Date.now().toString(16)}claudemem`
        output.parts.push({ id, sessionID, messageID: output.message.id, type: 'text', text: recalled, synthetic: true })
      }
    },
    'experimental.chat.system.transform': async ({ sessionID }, output) => {
      const context = contexts.get(sessionID) ?? ''
      if (context !== '') output.system.push(context)
    },
    'tool.execute.after': async ({ tool, sessionID, callID, args }, output) => {
      const code = output.metadata?.exit ?? 0
      const call = { tool_name: tool, tool_use_id: callID, tool_input: args }
      const failed = { ...call, error: `Exit code ${code}\n${output.output}` }
      if (code === 0) await run('save', event(sessionID, 'PostToolUse', { ...call, tool_response: output.output }))
      else await run('save', event(sessionID, 'PostToolUseFailure', failed))
    },
    event: async ({ event: { type, properties } }) => {
      if (type === 'message.updated' && properties.info.role === 'assistant') assistants.add(properties.info.id)
      if (type === 'message.part.updated' && properties.part.type === 'text' && assistants.has(properties.part.messageID)) {
        closings.set(properties.part.sessionID, properties.part.text)
      }
      if (type === 'session.idle' && contexts.has(properties.sessionID)) {
        const last_assistant_message = closings.get(properties.sessionID)
        closings.delete(properties.sessionID)
        await run('summary', event(properties.sessionID, 'Stop', { last_assistant_message }))
      }
      if (type === 'session.deleted') {
        contexts.delete(properties.info.id)
        closings.delete(properties.info.id)
        await run('end', event(properties.info.id, 'SessionEnd', { reason: 'other' }))
      }
    },
  }
}
