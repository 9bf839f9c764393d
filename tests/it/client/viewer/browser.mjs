// Drives Chromium over every page; prints what is wrong and exits with 1. Run by browser.rs in a folder that has node_modules.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
const require = createRequire(process.cwd() + '/');
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const [, , address, executablePath] = process.argv;
const wrong = [];
const expect = (is, what) => { if (!is) wrong.push(what); };
const args = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];
const browser = await chromium.launch({ executablePath, args });
const pages = ['/', '/search?q=alert', '/search?q=greeting', '/timeline', '/session/one', '/session/one/turn/1', '/memory', '/memory/1',
  '/memory/2', '/context', '/value', '/health', '/memory/99'];
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
const entry = await open({});
await entry.goto(address);
storageState = await entry.context().storageState();
base = entry.url();
for (const colorScheme of ['light', 'dark']) {
  for (const width of [320, 1280, 3840]) {
    const page = await open({ colorScheme, viewport: { width, height: 900 } });
    for (const path of pages) {
      await page.goto(new URL(path, base).href);
      expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${path} is wider than ${width}`);
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => globalThis.axe.run({ resultTypes: ['violations'] }));
      for (const { id, impact, nodes } of violations) {
        if (['serious', 'critical'].includes(impact)) wrong.push(`${colorScheme} ${width} ${path}: ${id} ${nodes[0].html.slice(0, 160)}`);
      }
    }
    await page.context().close();
  }
}
// Writes by keys, with their undo.
const page = await open({});
await page.goto(new URL('/memory/1', base).href);
await page.keyboard.press('p');
await page.getByText('Pinned: every session').waitFor();
await page.getByRole('button', { name: 'Undo' }).click();
await page.getByText('Unpinned.').waitFor();
await page.keyboard.press('x');
await page.getByText('Forgotten.', { exact: true }).waitFor();
await page.getByRole('button', { name: 'Undo' }).click();
await page.getByText('Restored.').waitFor();
await page.keyboard.press('/');
await page.keyboard.type('greeting');
await page.keyboard.press('Enter');
await page.locator('#results .row').first().waitFor();
await page.locator('main').focus();
await page.keyboard.press('j');
expect(await page.evaluate(() => document.activeElement.closest('.row') !== null), 'j does not move to a row');
await page.keyboard.press('?');
expect(await page.locator('dialog[open]').count() === 1, '? shows no keys');
await page.context().close();
// The same without scripts.
const plain = await open({ javaScriptEnabled: false });
await plain.goto(new URL('/memory/1', base).href);
for (const [button, done] of [['Veto', 'Vetoed'], ['Undo', 'Restored'], ['Forget', 'Forgotten'], ['Undo', 'Restored']]) {
  await plain.getByRole('button', { name: button, exact: true }).first().click();
  await plain.getByRole('status').filter({ hasText: done }).first().waitFor();
}
await browser.close();
for (const line of wrong) console.log(line);
process.exit(wrong.length ? 1 : 0);
