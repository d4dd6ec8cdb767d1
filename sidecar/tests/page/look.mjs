// Looks at boards in Chromium and prints what it found as JSON: node look.mjs PICTURES CHROMIUM NAME=URL...
import { mkdirSync, readFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { connect, createServer as createProxy } from 'node:net';
import { chromium } from 'playwright-core';

const [pictures, executablePath, ...boards] = process.argv.slice(2);
mkdirSync(pictures, { recursive: true });
const axe = readFileSync('node_modules/axe-core/axe.min.js', 'utf8');
const browser = await chromium.launch({
  executablePath: executablePath.includes('/') ? executablePath : `/usr/bin/${executablePath}`,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'],
});

// The page's own policy stays in force except where axe must get in; axe runs in a second look at the same page.
const open = async (url, { scheme, script, width = 1280, height = 900, forAxe = false }) => {
  const context = await browser.newContext({
    colorScheme: scheme, javaScriptEnabled: script || forAxe, viewport: { width, height }, bypassCSP: forAxe, reducedMotion: 'reduce',
  });
  const page = await context.newPage();
  const errors = [], elsewhere = [];
  page.on('console', (line) => { if (line.type() === 'error') errors.push(line.text()); });
  page.on('pageerror', (error) => errors.push(String(error)));
  page.on('request', (asked) => { if (new URL(asked.url()).origin !== new URL(url).origin) elsewhere.push(asked.url()); });
  // Where axe reads the page as it is without a script, ours is kept away.
  if (forAxe && !script) await page.route('**/board.js', (route) => route.fulfill({ contentType: 'text/javascript', body: '' }));
  await page.goto(url, { waitUntil: 'load' });
  if (script) await page.waitForFunction(() => document.querySelector('.tools:not([hidden])'));
  return { context, page, errors, elsewhere };
};

const violations = async (page) => {
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return found.violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(' | ')}`);
};

const views = [];
const view = async (what, url, how) => {
  const { context, page, errors, elsewhere } = await open(url, how);
  await page.screenshot({ path: `${pictures}/${what}.png`, fullPage: what.startsWith('6-') || what.includes('320') });
  const headline = await page.locator('#headline').textContent();
  const inner = how.width || 1280;
  const reader = await open(url, { ...how, forAxe: true });
  const overflow = await reader.page.evaluate((width) => Math.max(0, document.documentElement.scrollWidth - width), inner);
  views.push({ what, headline, errors, elsewhere, overflow, violations: await violations(reader.page) });
  await reader.context.close();
  await context.close();
};

for (const [name, url] of boards.map((board) => board.split(/=(.*)/s))) {
  for (const scheme of ['light', 'dark']) {
    for (const script of [true, false]) {
      await view(`${name}-${scheme}-${script ? 'script' : 'plain'}`, `${url}/?partition=5`, { scheme, script });
    }
  }
}
const first = boards[0].split(/=(.*)/s)[1];
for (const script of [true, false]) {
  await view(`320-${script ? 'script' : 'plain'}`, `${first}/?partition=2`, { scheme: 'light', script, width: 320, height: 640 });
}

// What the script adds.
const { context, page } = await open(first, { scheme: 'light', script: true });
const live = {};
const before = await page.locator('#workers').innerHTML();
live.tabStops = await page.locator('#partitions .grid a:not([tabindex="-1"])').count();
await page.locator('#partitions .grid a').first().focus();
await page.keyboard.press('ArrowRight');
const focused = () => page.evaluate(() => document.activeElement.getAttribute('href'));
const moved = await focused();
live.arrow = moved.includes('partition=1');
await page.waitForFunction((was) => document.querySelector('#workers').innerHTML !== was, before);
await page.waitForTimeout(1500);
live.exchanged = true;
live.kept = (await focused()) === moved;
await page.keyboard.press('/');
await page.keyboard.type('contested');
live.filtered = await page.locator('#partitions .grid > li:not([hidden])').count();
await page.keyboard.press('Escape');
await page.keyboard.press('?');
await page.screenshot({ path: `${pictures}/help.png` });
await page.keyboard.press('Escape');

await context.close();

// The board goes away: nothing may look alive. The way to it is cut behind the page's back.
const sockets = new Set();
const proxy = createProxy((near) => {
  const far = connect(Number(new URL(first).port), '127.0.0.1');
  for (const [socket, other] of [[near, far], [far, near]]) {
    sockets.add(socket);
    socket.pipe(other);
    socket.on('error', () => other.destroy());
  }
}).listen(0, '127.0.0.1');
await new Promise((go) => proxy.once('listening', go));
const cut = await open(`http://127.0.0.1:${proxy.address().port}`, { scheme: 'light', script: true });
proxy.close();
for (const socket of sockets) socket.destroy();
const stale = {};
await cut.page.waitForFunction(() => document.querySelector('#live').textContent.includes('Last heard'), null, { timeout: 30000 });
stale.live = await cut.page.locator('#live').textContent();
stale.headline = await cut.page.locator('#headline').textContent();
stale.countdown = await cut.page.locator('#partitions [data-left]').first().textContent();
await cut.page.screenshot({ path: `${pictures}/stale.png` });
await cut.context.close();

// The first load, as it is on the wire, and when it is painted: each time by a browser that has nothing of it yet.
const weight = {}, paint = {};
const PAINTS = 9;
for (const [name, url] of boards.map((board) => board.split(/=(.*)/s))) {
  const parts = {};
  for (const path of ['/', '/assets/board.css', '/assets/board.js', '/assets/icon.svg']) {
    parts[path] = await new Promise((done, failed) => {
      request(url + path, { headers: { 'accept-encoding': 'gzip' } }, (answer) => {
        let size = 0;
        answer.on('data', (part) => { size += part.length; });
        answer.on('end', () => done(size));
      }).on('error', failed).end();
    });
  }
  weight[name] = { all: Object.values(parts).reduce((sum, bytes) => sum + bytes, 0), parts };
  const painted = [], answered = [];
  for (let load = 0; load < PAINTS; load += 1) {
    const seen = await open(url, { scheme: 'light', script: true });
    const times = await seen.page.evaluate(async () => {
      const first = () => performance.getEntriesByName('first-contentful-paint')[0];
      for (let tries = 0; tries < 50 && !first(); tries += 1) await new Promise((go) => setTimeout(go, 100));
      return { painted: first() ? first().startTime : null, answered: performance.getEntriesByType('navigation')[0].responseEnd };
    });
    painted.push(times.painted);
    answered.push(times.answered);
    await seen.context.close();
  }
  const spread = (times) => {
    const sorted = times.map(Math.round).sort((a, b) => a - b);
    return { median: sorted[Math.floor(PAINTS / 2)], lowest: sorted[0], highest: sorted[PAINTS - 1] };
  };
  paint[name] = { painted: painted.includes(null) ? null : spread(painted), answered: spread(answered) };
}

// A page with faults, for the eyes themselves.
const bad = createServer((_, answer) => {
  answer.setHeader('content-type', 'text/html');
  answer.end('<html><body><img src="http://elsewhere.invalid/x.png"><input><a href="#"></a><p style="color:#ccc">pale</p></body></html>');
}).listen(0, '127.0.0.1');
await new Promise((go) => bad.once('listening', go));
const faulty = await open(`http://127.0.0.1:${bad.address().port}/`, { scheme: 'light', script: false, forAxe: true });
const badly = { violations: await violations(faulty.page), elsewhere: faulty.elsewhere };
bad.close();
await browser.close();
console.log(JSON.stringify({ views, live, stale, bad: badly, weight, paint }, null, 1));
