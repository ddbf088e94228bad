// The renderer has colours of its own for the dark, which it puts on by this class.
const dark = window.matchMedia('(prefers-color-scheme: dark)')
const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', follow)
follow()

// Renders the contract. A token that is typed in stays in this page's memory.
window.addEventListener('DOMContentLoaded', () => {
  window.SwaggerUIBundle({
    url: '/openapi.json',
    dom_id: '#docs',
    displayRequestDuration: true,
    persistAuthorization: false,
    validatorUrl: null,
    defaultModelsExpandDepth: 0,
    presets: [window.SwaggerUIBundle.presets.apis],
  })
})

/** What the renderer leaves out for those who use a keyboard or a screen reader. */
function complete() {
  for (const select of document.querySelectorAll('#docs select:not([aria-label])')) {
    select.setAttribute('aria-label', select.id === 'servers' ? 'Server' : 'Example')
  }
  for (const [part, name] of [
    ['.information-container', 'About the API'],
    ['.scheme-container', 'Server and token'],
  ]) {
    const region = document.querySelector(`#docs ${part}:not([role])`)
    region?.setAttribute('role', 'region')
    region?.setAttribute('aria-label', name)
  }
  // A table that is called a region is not read as a table.
  for (const table of document.querySelectorAll('#docs table[role="region"]')) table.removeAttribute('role')
  for (const example of document.querySelectorAll('#docs .microlight:not([tabindex])')) example.tabIndex = 0
}

new MutationObserver(complete).observe(document.body, { childList: true, subtree: true })
