import { ageInWords, exactTime, timeInWords } from './ages.js'

/** Milliseconds for which a button says what it did. */
const SAID = 3_000

// Pages work without this script; it adds convenience.
for (const button of document.querySelectorAll('[data-copy]')) {
  const source = document.getElementById(button.dataset.copy)
  const [text, label] = [button.textContent, button.getAttribute('aria-label')]
  let timer
  button.hidden = false
  button.addEventListener('click', async () => {
    button.textContent = (await copy(source)) ? 'Copied' : 'Press Ctrl+C'
    // The label would hide the result from screen readers.
    button.removeAttribute('aria-label')
    clearTimeout(timer)
    timer = setTimeout(() => {
      button.textContent = text
      button.setAttribute('aria-label', label)
    }, SAID)
  })
}

/** Copies an element's text. Where that fails, leaves it selected for manual copying. */
async function copy(source) {
  try {
    await navigator.clipboard.writeText(source.textContent)
    return true
  } catch {
    // The clipboard requires https. The older command needs a selection instead.
    window.getSelection().selectAllChildren(source)
    return document.execCommand('copy')
  }
}

for (const field of document.querySelectorAll('[data-filters]')) {
  const choices = document.getElementById(field.dataset.filters).querySelectorAll('label')
  field.parentElement.hidden = false
  // The field is no part of the form.
  field.addEventListener('keydown', (event) => event.key === 'Enter' && event.preventDefault())
  field.addEventListener('input', () => {
    const text = field.value.trim().toLowerCase()
    // What is chosen stays visible.
    for (const choice of choices)
      choice.hidden =
        !choice.querySelector('input').checked && !choice.textContent.toLowerCase().includes(text)
  })
}

for (const part of document.querySelectorAll('[data-shown-for]')) {
  const [name, value] = part.dataset.shownFor.split('=')
  const choice = document.getElementById(name)
  const update = () => {
    part.hidden = choice.value !== value
  }
  choice.addEventListener('change', update)
  update()
}

const menu = document.querySelector('.menu')
document.addEventListener('click', ({ target }) => {
  if (menu && !menu.contains(target)) menu.open = false
})
document.addEventListener('keydown', ({ key }) => {
  if (key !== 'Escape' || !menu?.open) return
  menu.open = false
  menu.firstElementChild.focus()
})

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }

/** Makes the matrix of checks one stop of the Tab key: of its links, the one that was focused last. */
function makeOneStop() {
  const matrix = document.querySelector('.matrix')
  const stop =
    matrix?.querySelector('a[tabindex="0"]') ?? matrix?.querySelector('tbody a') ?? matrix?.querySelector('a')
  if (!stop) return
  for (const link of matrix.querySelectorAll('a')) link.tabIndex = link === stop ? 0 : -1
  matrix.tabIndex = -1
}

document.addEventListener('keydown', (event) => {
  // With others, keys are those of the browser: Alt and an arrow key go back.
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return
  const step = STEPS[event.key]
  const cell = event.target.closest('.matrix :is(th, td)')
  if (!step || !cell) return
  event.preventDefault()
  const { rows } = cell.closest('table')
  const [right, down] = step
  let [x, y] = [cell.cellIndex, cell.parentElement.rowIndex]
  let link
  do {
    x += right
    y += down
    link = rows[y]?.cells[x]?.querySelector('a')
  } while (!link && rows[y]?.cells[x])
  if (!link) return
  event.target.tabIndex = -1
  link.tabIndex = 0
  link.focus()
})

makeOneStop()
document.addEventListener('ages', makeOneStop)

/** Brings the ages of the page up to date. */
function updateAges() {
  for (const time of document.querySelectorAll('time[data-age]')) {
    const seconds = (Date.now() - Date.parse(time.dateTime)) / 1000
    const exact = exactTime(time.dateTime)
    const [text, title] =
      'lasting' in time.dataset
        ? [timeInWords(seconds), `since ${exact}`]
        : [ageInWords(seconds) ?? exact, exact]
    if (time.textContent !== text) time.textContent = text
    if (time.title !== title) time.title = title
  }
}

updateAges()
setInterval(updateAges, 30_000)
for (const event of ['ages', 'visibilitychange']) document.addEventListener(event, updateAges)
