// Draws the pane of the memory: a search field, a list, one memory, or a text. Pure: what is pressed is passed to `actions`.

export function emptyPane() {
  return { view: 'list', title: '', query: '', rows: [], memory: undefined, text: '', note: '', forgotten: '' }
}

// Columns and rows of a pane whose size is unknown.
const USUAL = { columns: 60, rows: 24 }

export function drawn(h, elements, pane, actions, viewport) {
  const { Box, Text } = elements
  const size = { columns: viewport?.columns ?? USUAL.columns, rows: viewport?.rows ?? USUAL.rows }
  const parts = [head(h, elements, pane, actions)]
  if (pane.note !== '') parts.push(note(h, elements, pane, actions))
  parts.push(h(Text, { key: 'title', bold: true }, cut(pane.view === 'memory' ? titleOf(pane.memory) : pane.title, size.columns)))
  const room = Math.max(3, size.rows - parts.length - 3)
  if (pane.view === 'memory') parts.push(...memory(h, elements, pane.memory, actions, room))
  else if (pane.view === 'text') parts.push(...lines(h, elements, pane.text, room))
  else parts.push(...list(h, elements, pane.rows, actions, { ...size, rows: room }))
  return h(Box, { flexDirection: 'column' }, ...parts)
}

function head(h, { Box, Button, Input }, pane, actions) {
  return h(
    Box,
    { key: 'head', flexDirection: 'column' },
    h(Input, { key: 'query', label: 'Search', placeholder: 'words of a memory', value: pane.query, submitLabel: 'search', autoFocus: true, onSubmit: actions.search }),
    h(
      Box,
      { key: 'tabs' },
      h(Button, { key: 'recent', label: 'Recent', hotkey: 'r', onPress: actions.recent }),
      h(Button, { key: 'context', label: 'Context', hotkey: 'c', onPress: actions.context }),
    ),
  )
}

function note(h, { Box, Button, Text }, pane, actions) {
  const parts = [h(Text, { key: 'note-text', color: 'yellow' }, `${pane.note} `)]
  if (pane.forgotten !== '') {
    parts.push(h(Button, { key: 'undo', label: 'Undo', hotkey: 'u', onPress: () => actions.restore(pane.forgotten) }))
  }
  return h(Box, { key: 'note' }, ...parts)
}

function list(h, { Button, Text }, rows, actions, size) {
  return rows.slice(0, size.rows).map((row, at) => {
    const label = cut(`${row.ref === '' ? '' : `#${row.ref} `}${row.type ?? row.kind}, ${row.age}: ${row.title}`, size.columns)
    if (row.ref === '') return h(Text, { key: `row-${at}` }, label)
    return h(Button, { key: `row-${row.ref}`, label, plain: true, onPress: () => actions.open(row.ref) })
  })
}

function memory(h, elements, found, actions, room) {
  if (found === undefined) return []
  const { Box, Button } = elements
  const isNote = found.kind === 'observation'
  const buttons = [h(Button, { key: 'around', label: 'Timeline', hotkey: 't', onPress: () => actions.around(found.ref) })]
  if (isNote) buttons.push(h(Button, { key: 'forget', label: 'Forget', hotkey: 'f', onPress: () => actions.forget(found.ref) }))
  const facts = Array.isArray(found.facts) ? found.facts.map(fact => `- ${fact}`) : []
  const text = [found.summary, found.detail, ...facts].filter(part => typeof part === 'string' && part !== '').join('\n')
  return [h(Box, { key: 'actions' }, ...buttons), ...lines(h, elements, text, room - 1)]
}

function lines(h, { Text }, text, room) {
  const all = text.split('\n')
  const shown = all.slice(0, room).map((line, at) => h(Text, { key: `line-${at}` }, plain(line)))
  if (all.length > room) shown.push(h(Text, { key: 'more', dimColor: true }, `${all.length - room} more lines: claude-mem open`))
  return shown
}

function titleOf(found) {
  return found === undefined ? '' : `#${found.ref} ${found.type ?? found.kind}, ${found.age}: ${found.title ?? ''}`
}

// One line of at most `most` characters, without control characters.
function cut(text, most) {
  const letters = [...plain(text)]
  return letters.length <= most ? letters.join('') : `${letters.slice(0, Math.max(1, most - 1)).join('')}…`
}

function plain(text) {
  return String(text).replace(/[\p{Cc}\p{Cf}]/gu, ' ')
}
