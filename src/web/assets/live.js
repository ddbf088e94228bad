// Brings a page up to date while somebody reads it. Without this script, a reload does.

/** Milliseconds between requests: while checks are pending, otherwise, at most, and the factor of growth while nothing changes. */
const PENDING = 5_000
const SETTLED = 15_000
const LAST = 30_000
const SLOWER = 1.25

const live = document.getElementById('live')
const status = document.createElement('p')
status.className = 'sr'
status.setAttribute('role', 'status')
live.before(status)

let etag
const shortest = () => (live.hasAttribute('data-pending') ? PENDING : SETTLED)
let wait = shortest()
let timer
/** The latest request. Answers to earlier ones, which a hidden tab may have left, are ignored. */
let latest = 0
let asOf = new Date()

/** Asks for the page after `wait`, unless nobody reads it. */
function schedule() {
  clearTimeout(timer)
  if (!document.hidden) timer = setTimeout(poll, wait)
}

/** Says how old the page is, for all to see. */
function say(why) {
  status.classList.remove('sr')
  const text = `As of ${asOf.toLocaleTimeString()}. ${why}`
  if (status.textContent !== text) status.textContent = text
}

async function poll() {
  const request = ++latest
  try {
    const response = await fetch(location.pathname + location.search, {
      headers: { 'x-live': '1', ...(etag && { 'if-none-match': etag }) },
      cache: 'no-store',
      // The session has ended: a redirect leads to the sign-in page.
      redirect: 'manual',
    })
    const text = await response.text()
    if (request !== latest) return
    if (response.status === 200) {
      etag = response.headers.get('etag')
      update(text)
    } else if (response.status !== 304) {
      if (response.status < 500 && response.status !== 429) {
        say('This page has stopped updating. Reload it.')
        return
      }
      throw new Error(response.status)
    }
    asOf = new Date()
    if (!status.classList.contains('sr')) {
      status.classList.add('sr')
      status.textContent = 'This page is up to date again.'
    }
    wait = response.status === 200 ? shortest() : Math.min(wait * SLOWER, LAST)
  } catch {
    if (request !== latest) return
    say('The server cannot be reached; trying again.')
    wait = Math.min(wait * 2, LAST)
  }
  schedule()
}

document.addEventListener('visibilitychange', () => {
  clearTimeout(timer)
  if (!document.hidden) poll()
})
schedule()

function update(text) {
  const fresh = new DOMParser().parseFromString(text, 'text/html').getElementById('live')
  if (!fresh) return
  const summary = live.dataset.summary
  keepPlace(() => morph(live, fresh))
  document.dispatchEvent(new Event('ages'))
  if (summary === live.dataset.summary) return
  document.title = live.dataset.tab
  document.querySelector('link[rel=icon]').href = live.dataset.icon
  status.textContent = live.dataset.summary
}

/** Runs a change of the page without moving what the user reads, has focused or has selected. */
function keepPlace(change) {
  const focused = document.activeElement
  const selection = document.getSelection()
  const { anchorNode, anchorOffset, focusNode, focusOffset, isCollapsed } = selection
  const rows = scrollY > 0 ? [...live.querySelectorAll('tr[id], li[id]')].filter(isOnScreen) : []
  const places = rows.map((row) => [row, row.getBoundingClientRect().top])
  change()
  // A row that moved took its elements along, but the browser has dropped focus and selection.
  if (focused !== document.activeElement && focused?.isConnected) {
    unfold(focused)
    focused.focus({ preventScroll: true })
  }
  if (!isCollapsed && anchorNode?.isConnected && focusNode?.isConnected) {
    unfold(anchorNode.parentElement)
    const end = (node, offset) => Math.min(offset, node.data?.length ?? node.childNodes.length)
    selection.setBaseAndExtent(
      anchorNode,
      end(anchorNode, anchorOffset),
      focusNode,
      end(focusNode, focusOffset),
    )
  }
  const [row, top] = places.find(([row]) => row.isConnected && row.getClientRects().length > 0) ?? []
  if (row) scrollBy(0, row.getBoundingClientRect().top - top)
}

function isOnScreen(row) {
  const { top, bottom, height } = row.getBoundingClientRect()
  return height > 0 && bottom > 0 && top < innerHeight
}

/** Opens the section that an element is folded in. */
function unfold(element) {
  const section = element?.closest('#live details.section:not([open])')
  if (section) section.open = true
}

/** Changes an element and its content to those of another one. Elements with an id stay the same elements. */
function morph(element, fresh) {
  const known = new Map([...element.querySelectorAll('[id]')].map((part) => [part.id, part]))
  const change = (old, next) => {
    copyAttributes(old, next)
    // The text of ages is computed here.
    if (old.matches('time[data-age]')) return
    let place = old.firstChild
    for (const part of [...next.childNodes]) {
      const same = part.id ? known.get(part.id) : isAlike(place, part) ? place : undefined
      if (!same) {
        old.insertBefore(adopt(part), place)
        continue
      }
      if (same === place) place = place.nextSibling
      else old.insertBefore(same, place)
      if (same.nodeType === Node.ELEMENT_NODE) change(same, part)
      else if (same.data !== part.data) same.data = part.data
    }
    while (place) {
      const rest = place.nextSibling
      place.remove()
      place = rest
    }
  }
  /** Returns a new element for this page. Parts of it may be known, because they were elsewhere. */
  const adopt = (part) => {
    const made = document.importNode(part, false)
    for (const inner of [...part.childNodes]) {
      const same = inner.id ? known.get(inner.id) : undefined
      if (same) change(same, inner)
      made.append(same ?? adopt(inner))
    }
    return made
  }
  change(element, fresh)
}

function isAlike(node, other) {
  return node?.nodeName === other.nodeName && !node.id
}

function copyAttributes(element, fresh) {
  // The user folds and unfolds parts, and scripts show what works only with them, and move its stops.
  const isKept = (name) => name === 'open' || name === 'hidden' || name === 'tabindex'
  for (const { name } of [...element.attributes]) {
    if (!isKept(name) && !fresh.hasAttribute(name)) element.removeAttribute(name)
  }
  for (const { name, value } of fresh.attributes) {
    if (!isKept(name) && element.getAttribute(name) !== value) element.setAttribute(name, value)
  }
}
