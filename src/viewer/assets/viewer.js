// Everything works without this file, except live rows: it adds search as you type, keys, and writes without a reload.
// Data becomes text nodes; HTML comes only from our own pages, and is parsed without running anything.
const steps = { summarize: 'end of the turn', flush: 'next turn' };
const states = { raw: 'waiting', processing: 'in work' };
const $ = (selector, root = document) => root.querySelector(selector);
const main = () => $('main');

// Pages are replaced in place, so that keys and the live feed go on.
async function visit(url, options = {}, push = true) {
  const response = await fetch(url, { headers: { accept: 'text/html', ...options.headers }, ...options });
  const page = new DOMParser().parseFromString(await response.text(), 'text/html');
  const next = $('main', page);
  if (!next) { location.href = response.url; return; }
  main().replaceWith(document.adoptNode(next));
  document.title = page.title;
  if (push) history.pushState(null, '', response.url);
  begin();
  const notice = $('.notice');
  if (notice) { notice.tabIndex = -1; notice.focus(); }
}

document.addEventListener('submit', (event) => {
  const form = event.target;
  if (form.method !== 'post') return;
  event.preventDefault();
  const body = new URLSearchParams(new FormData(form, event.submitter));
  for (const button of form.querySelectorAll('button')) button.disabled = true;
  visit(form.action, { method: 'POST', body, headers: { 'x-mem': '1' } }).catch(ended);
});
// A link within the page, like the one to the content, is in the history too: it must not replace the page, and the focus with it.
const address = () => location.pathname + location.search;
let shown;
addEventListener('popstate', () => { if (address() !== shown) visit(location.href, {}, false).catch(ended); });

// Search as you type.
let typing, pending;
document.addEventListener('input', (event) => {
  const form = event.target.closest('form[data-typed]');
  if (!form) return;
  clearTimeout(typing);
  typing = setTimeout(async () => {
    pending?.abort();
    pending = new AbortController();
    const fields = [...new FormData(form)].filter(([, value]) => value);
    const url = form.action.split('?')[0] + '?' + new URLSearchParams(fields);
    try {
      const response = await fetch(url, { signal: pending.signal, headers: { accept: 'text/html' } });
      const page = new DOMParser().parseFromString(await response.text(), 'text/html');
      $('#results').replaceWith(document.adoptNode($('#results', page)));
      history.replaceState(null, '', url);
      shown = address();
    } catch (error) {
      if (error.name !== 'AbortError') ended();
    }
  }, 110);
});

// An undo is offered for ten seconds.
let undoing;
function countdown() {
  clearInterval(undoing);
  const place = $('[data-undo] .left');
  if (!place) return;
  let left = 10;
  const show = () => { place.textContent = left + ' s'; };
  show();
  undoing = setInterval(() => {
    left -= 1;
    if (left > 0) show();
    else { clearInterval(undoing); withdraw($('[data-undo]')); }
  }, 1000);
}

// The focus stays in the notice.
function withdraw(offer) {
  if (offer?.contains(document.activeElement)) offer.closest('.notice').focus();
  offer?.remove();
}

// Keys.
const rows = () => [...document.querySelectorAll('[data-row]')].filter((row) => row.offsetParent);
function move(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.contains(document.activeElement));
  const next = all[Math.min(all.length - 1, Math.max(0, at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step))];
  const target = next.matches('a') ? next : $('a, button, summary', next) ?? next;
  target.focus();
  next.scrollIntoView({ block: 'nearest' });
}
const keys = {
  '/': () => { const field = $('main [name=q]') ?? $('.quick [name=q]'); field.focus(); field.select(); },
  j: () => move(1),
  k: () => move(-1),
  ArrowRight: () => $('a[rel=next]')?.click(),
  ArrowLeft: () => $('a[rel=prev]')?.click(),
  e: () => { const box = $('#edit'); if (box) { box.open = true; $('input:not([type=hidden])', box).focus(); } },
  p: () => $('[data-key=p]')?.click(),
  x: () => $('[data-key=x]')?.click(),
  '?': () => $('#keys').showModal(),
};
addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('dialog')) return;
  const isTyping = event.target.matches('input, textarea, select');
  if (isTyping && event.key === 'Escape') { event.target.blur(); return; }
  if (isTyping || !keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
document.addEventListener('click', (event) => {
  if (event.target.closest('#keys-open')) { event.preventDefault(); keys['?'](); }
});

// The live feed, on pages that have one; elsewhere only the sign that somebody looks.
let feed;
function connect() {
  feed?.close();
  feed = null;
  if (document.hidden) return;
  const place = $('[data-feed]');
  feed = new EventSource(place ? '/live' : '/alive');
  feed.onopen = () => state('on', 'live');
  feed.onerror = () => { if (feed?.readyState === EventSource.CLOSED) ended(); else state('', 'connecting'); };
  if (place) feed.onmessage = (event) => queueFrame(JSON.parse(event.data));
}
function state(value, text) {
  const place = $('.live');
  if (place) { place.dataset.state = value; place.textContent = text; }
}
function ended() {
  state('off', 'ended');
  if ($('#ended')) return;
  const notice = document.createElement('div');
  notice.id = 'ended';
  notice.className = 'notice bad';
  notice.setAttribute('role', 'status');
  notice.textContent = 'The viewer has ended. Run `claude-mem open` to look again.';
  main().prepend(notice);
}
document.addEventListener('visibilitychange', connect);
setInterval(() => { if (document.hidden) fetch('/alive?hidden=1').catch(() => {}); }, 50000);

// Several messages between two frames are drawn once.
let waiting = [];
function queueFrame(activity) {
  waiting.push(activity);
  if (waiting.length === 1) requestAnimationFrame(draw);
}
function draw() {
  const batch = waiting;
  waiting = [];
  if (!$('[data-feed]')) return;
  const last = batch[batch.length - 1];
  for (const place of document.querySelectorAll('[data-figure]')) {
    const value = place.dataset.figure.split('.').reduce((object, name) => object?.[name], last);
    const text = value == null ? '–' : place.dataset.unit === 'usd' ? '$' + value.toFixed(2) : Number(value).toLocaleString('en');
    if (place.textContent !== text) place.textContent = text;
  }
  for (const list of document.querySelectorAll('[data-rows]')) {
    const items = batch.flatMap((activity) => [...activity[list.dataset.rows]].reverse());
    if (items.length) grow(list, items.slice(-60), list.dataset.rows);
  }
}
function grow(list, items, kind) {
  const template = $('template', list.parentElement);
  $('.empty', list.parentElement)?.remove();
  for (const item of items) {
    const row = template.content.firstElementChild.cloneNode(true);
    row.classList.add('new');
    const put = (name, text) => { const place = $(`[data-put=${name}]`, row); if (place) place.textContent = text ?? ''; };
    put('kind', kind === 'notes' ? item.type : item.tool ?? item.kind);
    put('title', kind === 'notes' ? item.title || item.summary : item.tool ?? steps[item.kind] ?? item.kind);
    put('project', item.project);
    put('state', item.failed ? 'failed' : states[item.status] ?? item.status);
    put('time', new Date(item.created_at).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: '2-digit' }));
    const link = $('a', row);
    if (link) link.href = kind === 'notes' ? '/memory/' + item.id : '/session/' + encodeURIComponent(item.session_id);
    list.prepend(row);
  }
  while (list.children.length > 60) list.lastElementChild.remove();
}

function begin() {
  shown = address();
  countdown();
  const tabs = $('.tabs');
  const path = main().dataset.page;
  for (const tab of tabs.children) tab.toggleAttribute('aria-current', tab.dataset.page === path);
  for (const tab of tabs.querySelectorAll('[aria-current]')) tab.setAttribute('aria-current', 'page');
  connect();
}
begin();
