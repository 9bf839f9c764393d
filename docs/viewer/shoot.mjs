// Takes the screenshots of this folder: plays an invented history (history.json) into a scratch memory, the older part as
// transcripts of earlier sessions and the newest through the hooks, and opens every page in Chromium, light and dark.
// usage: node shoot.mjs BIN OUT, in a folder whose node_modules has playwright-core; `make screenshots` does it.
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
const { chromium } = createRequire(process.cwd() + '/')('playwright-core');
const [programs, out] = process.argv.slice(2).map((path) => resolve(path));
const history = JSON.parse(readFileSync(new URL('history.json', import.meta.url)));
const scratch = mkdtempSync(join(tmpdir(), 'claude-mem-demo-'));
const bin = join(scratch, '.local', 'bin');
for (const program of ['claude-mem', 'claude-mem-hook']) cpSync(join(programs, program), join(bin, program));
const root = (project) => join(scratch, 'work', project);
const env = { PATH: process.env.PATH, HOME: scratch, CLAUDE_MEM_HOME: join(scratch, '.claude-mem'), CLAUDE_MEM_COMPRESS_PROVIDER: 'local',
  CLAUDE_CONFIG_DIR: join(scratch, '.claude') };
const run = (program, args, input) => {
  const ran = spawnSync(join(bin, program), args, { env, input, encoding: 'utf8' });
  if (ran.status !== 0) throw new Error(`${program} ${args}: ${ran.stderr}`);
  return ran.stdout;
};
const id = (number) => `5f0c${String(number).padStart(4, '0')}-0000-4000-8000-000000000000`;
const DAY = 86400000;

for (const project of new Set(history.map((session) => session.project))) {
  mkdirSync(root(project), { recursive: true });
  for (const args of [['init', '-q', '-b', 'main'], ['remote', 'add', 'origin', `https://git.example/${project}.git`]]) {
    spawnSync('git', args, { cwd: root(project) });
  }
}

// The tool calls of a turn, as the client reports them.
function calls(turn, cwd) {
  const bash = (command, stdout, failed = false) => ({ name: 'Bash', input: { command }, failed, result: { stdout, stderr: '', interrupted: false } });
  const path = join(cwd, turn.file);
  const edit = { name: 'Edit', input: { file_path: path, old_string: turn.old, new_string: turn.new },
    result: { filePath: path, oldString: turn.old, newString: turn.new, originalFile: turn.old, structuredPatch: [], userModified: false, replaceAll: false } };
  const list = [];
  if (turn.failed) list.push(bash(turn.failed, turn.failure, true));
  list.push(edit, bash(turn.command, turn.result));
  if (turn.commit) list.push(bash(`git commit -am "${turn.commit}"`, `[main 1a2b3c4] ${turn.commit}\n 1 file changed, 4 insertions(+)`));
  return list;
}

// A session as a transcript that `backfill` reads.
function transcript(session, number, start) {
  const cwd = root(session.project);
  const lines = [];
  let at = start;
  const record = (type, rest) => {
    at += 41000;
    lines.push(JSON.stringify({ type, sessionId: id(number), uuid: `${number}-${lines.length}`, cwd, gitBranch: session.branch, version: '2.1.219',
      timestamp: new Date(at).toISOString(), ...rest }));
  };
  session.turns.forEach((turn, place) => {
    record('user', { message: { role: 'user', content: turn.prompt } });
    calls(turn, cwd).forEach((call, step) => {
      const tool = `toolu_${number}_${place}_${step}`;
      record('assistant', { message: { id: tool, content: [{ type: 'tool_use', id: tool, name: call.name, input: call.input }] } });
      const content = [{ type: 'tool_result', tool_use_id: tool, content: call.result.stdout ?? '', is_error: call.failed === true }];
      record('user', { message: { role: 'user', content }, toolUseResult: call.failed ? `Error: ${call.result.stdout}` : call.result });
    });
    record('assistant', { message: { id: `end${place}`, content: [{ type: 'text', text: turn.closing }] } });
  });
  return lines.join('\n') + '\n';
}

// A session through the hooks, now.
function live(session, number) {
  const cwd = root(session.project);
  const hook = (verb, payload) => run('claude-mem-hook', [verb], JSON.stringify({ session_id: id(number), cwd, ...payload }));
  hook('context', { hook_event_name: 'SessionStart', source: 'startup' });
  session.turns.forEach((turn, place) => {
    hook('new', { hook_event_name: 'UserPromptSubmit', prompt: turn.prompt });
    calls(turn, cwd).forEach((call, step) => {
      const common = { tool_name: call.name, tool_use_id: `toolu_${number}_${place}_${step}`, tool_input: call.input };
      if (call.failed) hook('save', { hook_event_name: 'PostToolUseFailure', ...common, error: call.result.stdout });
      else hook('save', { hook_event_name: 'PostToolUse', ...common, tool_response: call.result });
    });
    hook('summary', { hook_event_name: 'Stop', prompt_id: `${number}-${place}`, last_assistant_message: turn.closing });
  });
}

// Each part of the history recurs some weeks apart, as work does; the last sessions are of today.
const past = join(scratch, 'past');
mkdirSync(past);
const noon = new Date().setHours(12, 0, 0, 0);
for (let number = 0; number < history.length - 3; number += 1) {
  const start = noon - (60 - number * 6 - (number % 3) * 2) * DAY + ((number * 7) % 5) * 3600000;
  writeFileSync(join(past, `${id(number)}.jsonl`), transcript(history[number], number, start));
}
const worker = spawn(join(bin, 'claude-mem'), ['worker'], { env, stdio: 'ignore' });
const settled = () => JSON.parse(run('claude-mem', ['queue', 'list', '--json'])).length === 0;
const pause = () => spawnSync('sleep', ['0.2']);
while (spawnSync(join(bin, 'claude-mem'), ['status'], { env }).status !== 0) pause();
run('claude-mem', ['backfill', past, '--no-wait']);
while (!settled()) pause();
for (let number = history.length - 3; number < history.length; number += 1) {
  live(history[number], number);
  while (!settled()) pause();
}
for (const [project, category, text] of [
  ['harborline', 'command', 'Run the tests with `just test`, never `cargo test`: it sets the ports of the fake customs server'],
  ['harborline', 'gotcha', 'Never raise the busy timeout of the booking database: two tests share a file'],
  ['tidewatch', 'convention', 'Levels are in metres above chart datum, everywhere'],
]) run('claude-mem', ['learn', 'add', text, '--project', project, '--category', category]);
const ask = (method, path, body) => spawnSync('curl', ['-s', '-X', method, '--unix-socket', join(env.CLAUDE_MEM_HOME, 'worker.sock'),
  '-H', 'content-type: application/json', '-d', JSON.stringify(body), `http://x${path}`], { encoding: 'utf8' }).stdout;
ask('POST', '/api/observations/1/pin', { pinned: true });
ask('POST', '/api/vetoes', { statement: 'Prefer `cargo test` over `just test`', project: 'harborline' });
run('claude-mem', ['install', '--no-service']);
run('claude-mem', ['backup']);

const bridge = spawn(join(bin, 'claude-mem'), ['open', '--no-browser'], { env, stdio: ['ignore', 'pipe', 'ignore'] });
let address;
for await (const line of createInterface({ input: bridge.stdout })) if (line.includes('http://')) { address = line.trim(); break; }
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--headless', '--no-sandbox', '--disable-gpu', '--hide-scrollbars'] });
const entry = await browser.newContext();
const first = await entry.newPage();
await first.goto(address);
const base = first.url();
const storageState = await entry.storageState();
const refund = JSON.parse(run('claude-mem', ['search', 'refunds single tickets', '--json'])).hits[0].ref.replace(/\D/g, '');
const pages = { now: '/', search: '/search?q=why+was+the+queue+bounded', timeline: '/timeline', session: `/session/${id(history.length - 2)}`,
  memory: `/memory/${refund}`, context: '/context?project=harborline', value: '/value', health: '/health' };
mkdirSync(out, { recursive: true });
for (const colorScheme of ['light', 'dark']) {
  const context = await browser.newContext({ storageState, colorScheme, viewport: { width: 1200, height: 800 } });
  const page = await context.newPage();
  for (const [name, path] of Object.entries(pages)) {
    await page.goto(new URL(path, base).href);
    if (name === 'now') await page.locator('.live[data-state=on]').waitFor();
    if (name === 'health') { await page.waitForTimeout(3000); await page.reload(); }
    await page.screenshot({ path: join(out, `${name}-${colorScheme}.png`) });
  }
  await context.close();
}
await browser.close();
bridge.kill();
worker.kill();
rmSync(scratch, { recursive: true, force: true });
process.exit(0);
