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

const UNITS = [
  ['year', 365 * 86_400],
  ['month', 30 * 86_400],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
]

/** Brings the ages of the page up to date. They read as those that the server renders, see `formatAge` in text.ts. */
function updateAges() {
  for (const time of document.querySelectorAll('time[data-age]')) {
    const text = ageOf(time) ?? time.title
    if (time.textContent !== text) time.textContent = text
  }
}

/** Returns the age of a time, or nothing if it is in the future by more than clocks differ. */
function ageOf(time) {
  const seconds = (Date.now() - Date.parse(time.dateTime)) / 1000
  if (seconds < -300) return
  if (seconds < 60) return 'just now'
  const [unit, length] = UNITS.find(([, length]) => seconds >= length)
  const count = Math.floor(seconds / length)
  return `${count} ${unit}${count === 1 ? '' : 's'} ago`
}

updateAges()
setInterval(updateAges, 30_000)
document.addEventListener('ages', updateAges)
