import { ageInWords, timeInWords } from './ages.js'

// Pages work without this script; it adds convenience.
for (const button of document.querySelectorAll('[data-copy]')) {
  const source = document.getElementById(button.dataset.copy)
  button.hidden = false
  button.addEventListener('click', async () => {
    button.textContent = (await copy(source)) ? 'Copied' : 'Press Ctrl+C'
    // The label would hide the result from screen readers.
    button.removeAttribute('aria-label')
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

for (const part of document.querySelectorAll('[data-shown-for]')) {
  const [name, value] = part.dataset.shownFor.split('=')
  const choice = document.getElementById(name)
  const update = () => {
    part.hidden = choice.value !== value
  }
  choice.addEventListener('change', update)
  update()
}

/** Brings the ages of the page up to date. */
function updateAges() {
  for (const time of document.querySelectorAll('time[data-age]')) {
    const seconds = (Date.now() - Date.parse(time.dateTime)) / 1000
    const text = 'lasting' in time.dataset ? timeInWords(seconds) : (ageInWords(seconds) ?? time.title)
    if (time.textContent !== text) time.textContent = text
  }
}

updateAges()
setInterval(updateAges, 30_000)
for (const event of ['ages', 'visibilitychange']) document.addEventListener(event, updateAges)
