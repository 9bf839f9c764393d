// Drives Chromium over every page; prints what is wrong and exits with 1. Run by browser.rs in a folder that has node_modules.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
const require = createRequire(process.cwd() + '/');
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const [, , address, executablePath] = process.argv;
const wrong = [];
const expect = (is, what) => { if (!is) wrong.push(what); };
const finish = () => {
  for (const line of wrong) console.log(line);
  process.exit(wrong.length ? 1 : 0);
};
process.on('uncaughtException', (error) => { wrong.push(error.stack ?? error); finish(); });
const args = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];
const browser = await chromium.launch({ executablePath, args });
const today = new Date().toLocaleDateString('sv');
const pages = ['/', '/search?q=alert', '/search?q=greeting', '/timeline', `/day/${today}`, '/session/one', '/session/one/turn/1', '/session/hostile',
  '/memory', '/memory/1', '/memory/2', '/context', '/context?trigger=prompt&text=greeting', '/value', '/health', '/memory/99'];
let storageState;
let base;
async function open(options) {
  const context = await browser.newContext({ storageState, ...options });
  const page = await context.newPage();
  page.on('dialog', () => wrong.push('a script of a memory ran'));
  page.on('pageerror', (error) => wrong.push(`${page.url()}: ${error.message}`));
  page.on('console', (message) => {
    const isMissingPage = message.text().includes('404');
    if (['error', 'warning'].includes(message.type()) && !isMissingPage) wrong.push(`${page.url()}: ${message.text()}`);
  });
  return page;
}
const to = (page, path) => page.goto(new URL(path, base).href);
const notice = (page, text) => page.getByRole('status').filter({ hasText: text }).first().waitFor();
const press = (page, name) => page.getByRole('button', { name, exact: true }).first().click();

const entry = await open({});
await entry.goto(address);
storageState = await entry.context().storageState();
base = entry.url();

// Every page at three widths, in both schemes, with axe-core; a hostile memory stays text and fits.
for (const colorScheme of ['light', 'dark']) {
  for (const width of [320, 1280, 3840]) {
    const page = await open({ colorScheme, viewport: { width, height: 900 } });
    for (const path of pages) {
      await to(page, path);
      expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${path} is wider than ${width}`);
      expect(await page.locator('main img, main script, main b.evil').count() === 0, `${path} has an element of a memory`);
      const text = await page.locator('main').innerText();
      expect(!/[\u202a-\u202e\u2066-\u2069\u001b]/.test(text), `${path} shows a control character`);
      expect(text.length < 300000, `${path} shows a whole megabyte`);
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => globalThis.axe.run({ resultTypes: ['violations'] }));
      for (const { id, impact, nodes } of violations) {
        if (['serious', 'critical'].includes(impact)) wrong.push(`${colorScheme} ${width} ${path}: ${id} ${nodes[0].html.slice(0, 160)}`);
      }
    }
    await page.context().close();
  }
}
const lists = await open({});
for (const [path, where] of [['/', '[data-rows=notes]'], ['/search?q=alert', '#results'], ['/timeline', '.rows'], [`/day/${today}`, 'main'],
  ['/session/hostile', 'blockquote'], ['/memory', 'main'], ['/memory/2', 'h1'], ['/context', 'main']]) {
  await to(lists, path);
  const text = await lists.locator(where).first().innerText();
  // Saving by hand replaces the bracket; the viewer must not depend on it.
  expect(/[<‹]script>alert/.test(text), `${path} does not show the hostile memory as text: ${text.slice(0, 300)}`);
}
await lists.context().close();

// Writes, each with its undo: first as a script sends them, then as plain forms.
for (const javaScriptEnabled of [true, false]) {
  const page = await open({ javaScriptEnabled });
  const how = javaScriptEnabled ? 'with scripts' : 'without scripts';
  const step = async (name, work) => {
    try { await work(); } catch (error) { wrong.push(`${name} ${how}: ${String(error.message).split('\n')[0]}`); }
  };
  page.setDefaultTimeout(15000);
  await step('pin', async () => {
    await to(page, '/memory/1');
    await press(page, 'Pin');
    await notice(page, 'Pinned');
    await press(page, 'Undo');
    await notice(page, 'Unpinned');
  });
  await step('forget', async () => {
    await to(page, '/memory/1');
    await press(page, 'Forget');
    await notice(page, 'Forgotten');
    await press(page, 'Undo');
    await notice(page, 'Restored');
  });
  await step('veto', async () => {
    await to(page, '/memory/1');
    await press(page, 'Veto');
    await notice(page, 'Vetoed');
    await press(page, 'Undo');
    await notice(page, 'Restored');
  });
  await step('edit', async () => {
    await to(page, '/memory/1');
    const before = await page.locator('h1').innerText();
    await page.locator('#edit > summary').click();
    await page.getByLabel('Title').fill(`Greet politely ${how}`);
    await press(page, 'Save');
    await notice(page, 'Saved');
    expect((await page.locator('h1').innerText()) === `Greet politely ${how}`, `the edit is not shown ${how}`);
    expect((await page.getByRole('region', { name: 'Earlier versions' }).innerText()).includes(before), `no earlier version ${how}`);
    await press(page, 'Undo');
    await notice(page, 'earlier version is back');
    expect((await page.locator('h1').innerText()) === before, `the edit is not undone ${how}`);
  });
  await step('merge', async () => {
    await to(page, '/memory/3');
    await page.getByLabel('says the same').first().check();
    await press(page, 'Merge into this note');
    await notice(page, 'Merged');
    await press(page, 'Undo');
    await notice(page, 'Restored');
    expect((await page.getByLabel('says the same').count()) > 0, `the merged note is not back ${how}`);
  });
  await step('switch a line off', async () => {
    await to(page, '/context');
    const lines = () => page.locator('.line .text').allInnerTexts();
    const line = (await lines()).at(-1);
    await page.getByRole('button', { name: 'Switch off' }).last().click();
    await notice(page, /Switched off|Vetoed/);
    expect(!(await lines()).includes(line), `the line is still there ${how}: ${line}`);
    await press(page, 'Undo');
    await notice(page, /lifted|Restored/);
    await to(page, '/context');
    expect((await lines()).includes(line), `the line is not back ${how}: ${line}`);
  });
  await step('lift a veto', async () => {
    await to(page, '/memory');
    const vetoes = page.getByRole('button', { name: 'Lift the veto' });
    const before = await vetoes.count();
    await vetoes.first().click();
    await notice(page, 'lifted');
    expect((await vetoes.count()) === before - 1, `the veto is not lifted ${how}`);
    await press(page, 'Undo');
    await notice(page, 'Switched off');
    expect((await vetoes.count()) === before, `the veto is not back ${how}`);
  });
  await step('learning', async () => {
    await to(page, '/memory');
    const row = page.locator('.row', { hasText: 'Deploys are on Tuesdays' });
    await row.getByRole('button', { name: 'Forget' }).click();
    await notice(page, 'Forgotten');
    await press(page, 'Undo');
    await notice(page, 'Restored');
    expect((await row.count()) > 0, `the learning is not back ${how}`);
  });
  await step('retry', async () => {
    await to(page, '/');
    await press(page, 'Retry');
    await notice(page, 'Queued again');
  });
  await step('health', async () => {
    await to(page, '/health');
    await press(page, 'Back up now');
    await notice(page, 'Backed up');
  });
  await page.context().close();
}

// By keyboard alone: no pointer is used here.
const keyboard = await open({});
await to(keyboard, '/memory/1');
const focused = (selector) => keyboard.evaluate((wanted) => document.activeElement?.closest(wanted) != null, selector);
await keyboard.keyboard.press('p');
await notice(keyboard, 'Pinned');
expect(await focused('.notice'), 'the notice has no focus');
await keyboard.keyboard.press('Tab');
await keyboard.keyboard.press('Enter');
await notice(keyboard, 'Unpinned');
await keyboard.keyboard.press('e');
await keyboard.keyboard.press('Control+A');
await keyboard.keyboard.type('Typed by keyboard');
await keyboard.keyboard.press('Enter');
await notice(keyboard, 'Saved');
await keyboard.keyboard.press('Tab');
await keyboard.keyboard.press('Enter');
await notice(keyboard, 'earlier version is back');
await keyboard.keyboard.press('/');
await keyboard.keyboard.type('greeting');
await keyboard.keyboard.press('Enter');
await keyboard.waitForURL(/\/search/);
await keyboard.locator('#results .row').first().waitFor();
await keyboard.keyboard.press('Escape');
await keyboard.keyboard.press('j');
expect(await focused('.row'), 'j does not move to a row');
await keyboard.keyboard.press('Enter');
await keyboard.waitForURL(/\/memory\//);
await keyboard.keyboard.press('?');
expect(await keyboard.locator('dialog[open]').count() === 1, '? shows no keys');
await keyboard.keyboard.press('Escape');
// A page of search begins in its field.
for (const path of pages.slice(0, -1).filter((path) => !path.startsWith('/search'))) {
  await to(keyboard, path);
  await keyboard.evaluate(() => {
    const { fetch } = globalThis;
    globalThis.fetched = [];
    globalThis.fetch = (url, ...rest) => { globalThis.fetched.push(String(url)); return fetch(url, ...rest); };
  });
  await keyboard.keyboard.press('Tab');
  expect(await focused('.skip'), `${path}: the first stop is not the link to the content`);
  await keyboard.keyboard.press('Enter');
  await keyboard.waitForFunction(() => location.hash !== '');
  await keyboard.keyboard.press('Tab');
  expect(await focused('main, footer'), `${path}: the content cannot be reached`);
  const focus = await keyboard.evaluate(() => {
    const active = document.activeElement;
    return { tag: active.outerHTML.slice(0, 120), outline: getComputedStyle(active).outlineStyle };
  });
  const fetched = await keyboard.evaluate(() => globalThis.fetched);
  expect(fetched.length === 0, `${path}: a link within the page loads ${fetched} and would take the focus away`);
  expect(focus.outline !== 'none', `${path}: the focus cannot be seen on ${focus.tag}`);
}
await keyboard.context().close();

// An undo that is withdrawn does not take the focus with it.
const slow = await open({});
await slow.clock.install();
await to(slow, '/memory/1');
await slow.keyboard.press('p');
await notice(slow, 'Pinned');
await slow.keyboard.press('Tab');
expect(await slow.evaluate(() => document.activeElement.closest('[data-undo]') != null), 'the undo cannot be reached');
await slow.clock.runFor(11000);
expect(await slow.locator('[data-undo]').count() === 0, 'the undo is offered for ever');
expect(await slow.evaluate(() => document.activeElement.matches('.notice')), 'the focus is gone with the undo');
await slow.context().close();

// Without scripts every page has the same content, and the forms of search and filters work.
const plain = await open({ javaScriptEnabled: false });
for (const path of pages.slice(0, -1)) {
  const response = await to(plain, path);
  expect(response.status() === 200, `${path} without scripts: ${response.status()}`);
  expect((await plain.locator('main h1').count()) === 1, `${path} has no heading without scripts`);
}
await to(plain, '/search');
await plain.getByLabel('Search memories').fill('greeting');
await press(plain, 'Search');
expect((await plain.locator('#results .row').count()) > 0, 'search does not work without scripts');
await plain.context().close();

// A flood of events, begun by the caller when it reads this line: rows stay bounded, and the newest is shown.
const live = await open({});
await to(live, '/');
await live.locator('.live[data-state=on]').waitFor();
console.log('watching');
const flooded = await live.waitForFunction(() => document.querySelector('[data-rows=events]')?.innerText.includes('FloodLast'), null, { timeout: 60000 })
  .then(() => true, () => false);
expect(flooded, 'the last event of the flood is not shown');
expect(await live.locator('[data-rows=events] > li').count() <= 60, 'the live list grows without bound');
await live.keyboard.press('?');
expect(await live.locator('dialog[open]').count() === 1, 'the page does not respond after the flood');

await browser.close();
finish();
