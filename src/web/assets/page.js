// Pages work without this; it only makes them more convenient.
for (const button of document.querySelectorAll('[data-copy]')) {
  const source = document.getElementById(button.dataset.copy)
  button.hidden = false
  button.addEventListener('click', async () => {
    button.textContent = (await copy(source)) ? 'Copied' : 'Press Ctrl+C'
  })
}

/** Copies an element's text, or leaves it selected, ready to be copied by hand. */
async function copy(source) {
  try {
    await navigator.clipboard.writeText(source.textContent)
    return true
  } catch {
    // Over plain http there is no clipboard; the older command needs a selection, but no https.
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
