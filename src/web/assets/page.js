// Pages work without this; it only makes them more convenient.
for (const button of document.querySelectorAll('[data-copy]')) {
  const source = document.getElementById(button.dataset.copy)
  button.hidden = false
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(source.textContent)
      button.textContent = 'Copied'
    } catch {
      // Without a secure origin there is no clipboard: leave the text selected, ready to be copied by hand.
      window.getSelection().selectAllChildren(source)
      button.textContent = 'Press Ctrl+C'
    }
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
