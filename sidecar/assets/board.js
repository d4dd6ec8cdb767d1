// The page is whole without this. It keeps it fresh: after each look of the board it fetches the page's parts again and
// exchanges those that changed. Nothing here writes anything to the board; text only ever comes from the board's own page.
'use strict';
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const stored = (name) => { try { return localStorage.getItem(name); } catch { return null; } };
  const store = (name, value) => { try { localStorage.setItem(name, value); } catch { /* private mode: it is forgotten */ } };
  const main = $('#main');
  let paused = false, received = performance.now(), looked = performance.now(), fetching = false, again = false, filter = '';
  let announced = 0, staleAfter = 10000;

  // Theme: what the system says, until the reader chose.
  const theme = stored('theme');
  if (theme === 'dark' || theme === 'light') document.documentElement.dataset.theme = theme;
  const isDark = () => document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;

  // What the script alone can do is shown by the script alone.
  const dress = () => {
    for (const part of all('.tools[hidden], .filter[hidden]', main)) part.hidden = false;
    const pause = $('[data-do=pause]', main);
    if (pause) { pause.setAttribute('aria-pressed', paused); pause.textContent = paused ? 'Go on' : 'Pause'; }
    const input = $('#filter');
    if (input && input.value !== filter) input.value = filter;
    const live = $('#live');
    if (live) staleAfter = Number(live.dataset.staleAfter) || staleAfter;
    sift();
    rove();
  };

  const sift = () => {
    for (const item of all('#partitions .grid > li')) item.hidden = !item.textContent.toLowerCase().includes(filter);
  };

  // One tab stop for the grid; the arrows move in it.
  let at = null;
  const cells = () => all('#partitions .grid > li:not([hidden]) > a');
  const rove = () => {
    const list = cells();
    const current = list.find((cell) => cell.getAttribute('href') === at) || list[0];
    for (const cell of list) cell.tabIndex = cell === current ? 0 : -1;
  };
  const move = (key) => {
    const list = cells(), here = list.indexOf(document.activeElement);
    if (!list.length) return;
    const top = here < 0 ? 0 : list[here].offsetTop;
    const columns = Math.max(1, list.filter((cell) => cell.offsetTop === top).length, list.findIndex((c) => c.offsetTop !== list[0].offsetTop));
    const step = { ArrowLeft: -1, h: -1, ArrowRight: 1, l: 1, ArrowUp: -columns, k: -columns, ArrowDown: columns, j: columns }[key];
    const next = here < 0 ? list[0] : list[here + step];
    if (next) { at = next.getAttribute('href'); rove(); next.focus(); }
  };

  const exchange = (html) => {
    const fresh = new DOMParser().parseFromString(html, 'text/html');
    const focus = document.activeElement, id = focus && focus.id, href = focus && focus.getAttribute && focus.getAttribute('href');
    const action = focus && focus.dataset && focus.dataset.do;
    for (const part of all('.part', fresh)) {
      const old = document.getElementById(part.id);
      if (!old) continue;
      for (const open of all('details[open][id]', old)) {
        const same = all('details[id]', part).find((d) => d.id === open.id);
        if (same) same.open = true;
      }
      if (old.dataset.was === part.innerHTML) continue;
      const was = part.innerHTML;
      const inside = old.contains(focus);
      old.replaceChildren(...part.childNodes);
      old.dataset.was = was;
      if (!inside) continue;
      const again = (id && document.getElementById(id)) || (action && $(`[data-do="${action}"]`, old))
        || all('a', old).find((a) => a.getAttribute('href') === href);
      if (again) { if (again.closest('[hidden]')) again.closest('[hidden]').hidden = false; again.focus({ preventScroll: true }); }
    }
    received = performance.now();
    dress();
    count();
    const headline = $('#headline');
    if (headline && received - announced > 5000 && $('#say').textContent !== headline.textContent) {
      announced = received;
      $('#say').textContent = headline.textContent;
    }
  };

  const refresh = async () => {
    if (paused || document.hidden) return;
    if (fetching) { again = true; return; }
    fetching = true;
    try {
      const answer = await fetch('/main' + location.search, { cache: 'no-store' });
      if (answer.ok) exchange(await answer.text());
    } catch { /* the clock below says that nothing was heard */ }
    fetching = false;
    if (again) { again = false; setTimeout(refresh, 250); }
  };

  const words = (ms) => ms < 9950 ? `${(ms / 1000).toFixed(1)} s` : ms < 119500 ? `${Math.round(ms / 1000)} s` : `${Math.round(ms / 60000)} min`;
  // The sentence says so too; the next picture brings its own.
  const lament = (silent) => {
    $('#headline').textContent = `The board has not answered for ${words(silent)}. What is below was so then.`;
    $('#top').dataset.was = '';
  };
  const count = () => {
    const now = performance.now(), silent = now - looked, old = silent > staleAfter;
    main.classList.toggle('old', old || paused);
    for (const part of all('[data-left]', main)) {
      const left = Number(part.dataset.left) - (now - received);
      const text = old ? 'unknown' : left <= 0 ? 'should have run out' : words(left);
      if (part.textContent !== text) part.textContent = text;
      const meter = part.parentElement.querySelector('meter');
      if (meter) meter.value = old ? 0 : Math.max(0, left);
    }
    const live = $('#live');
    if (live && old) { live.className = 'live lost'; live.textContent = `● Last heard ${words(silent)} ago`; lament(silent); }
    else if (live && paused) { live.className = 'live stale'; live.textContent = `● Paused ${words(now - received)} ago`; }
  };
  setInterval(count, 1000);

  const source = new EventSource('/v1/events');
  source.addEventListener('view', () => { looked = performance.now(); refresh(); });
  document.addEventListener('visibilitychange', refresh);

  const act = {
    pause: () => { paused = !paused; dress(); count(); refresh(); },
    theme: () => { const next = isDark() ? 'light' : 'dark'; document.documentElement.dataset.theme = next; store('theme', next); },
    help: () => $('#help').showModal(),
    close: () => $('#help').close(),
  };
  document.addEventListener('click', (event) => {
    const button = event.target.closest('[data-do]');
    if (button) act[button.dataset.do]();
  });
  document.addEventListener('input', (event) => {
    if (event.target.id === 'filter') { filter = event.target.value.trim().toLowerCase(); sift(); rove(); }
    if (event.target.id === 'keys') store('keys', event.target.checked ? 'on' : 'off');
  });
  $('#keys').checked = stored('keys') !== 'off';

  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || $('#help').open) return;
    const typing = event.target.matches('input, textarea, select');
    if (event.key === 'Escape') {
      if (typing) { event.target.blur(); return; }
      const back = $('#details [data-back]');
      if (back) back.click();
      return;
    }
    const inGrid = event.target.closest && event.target.closest('.grid');
    if (typing) return;
    if (event.key.startsWith('Arrow')) { if (inGrid) { event.preventDefault(); move(event.key); } return; }
    if (!$('#keys').checked) return;
    const keys = {
      '/': () => $('#filter').focus(), '?': act.help, p: act.pause,
      t: () => { $('#lanes').scrollIntoView(); const link = $('#lanes a'); if (link) link.focus({ preventScroll: true }); },
      h: () => move('h'), j: () => move('j'), k: () => move('k'), l: () => move('l'),
    };
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });

  for (const part of all('.part', main)) part.dataset.was = part.innerHTML;
  dress();
})();
