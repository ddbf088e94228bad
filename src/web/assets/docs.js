// Swagger UI has a dark theme, which this class enables.
const dark = window.matchMedia('(prefers-color-scheme: dark)')
const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', follow)
follow()

/** Collapses the description of the API, so that the first operation is on the first screen. */
const collapseDescription = () => ({
  wrapComponents: {
    Markdown:
      (Markdown, { React, specSelectors }) =>
      (props) => {
        const content = React.createElement(Markdown, props)
        if (props.source !== specSelectors.info().get('description')) return content
        const heading = React.createElement('h2', null, 'Authentication, errors and conventions')
        const summary = React.createElement('summary', null, heading)
        return React.createElement('details', { className: 'about' }, summary, content)
      },
  },
})

// Renders the contract. A token entered here stays in the memory of this page.
window.addEventListener('DOMContentLoaded', () => {
  window.SwaggerUIBundle({
    url: '/openapi.json',
    dom_id: '#docs',
    displayRequestDuration: true,
    persistAuthorization: false,
    validatorUrl: null,
    defaultModelsExpandDepth: 0,
    presets: [window.SwaggerUIBundle.presets.apis],
    plugins: [collapseDescription],
  })
})

/** Adds the accessibility attributes that Swagger UI lacks. */
function addAccessibility() {
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
  // Screen readers do not read a table with the role region as a table.
  for (const table of document.querySelectorAll('#docs table[role="region"]')) table.removeAttribute('role')
  for (const example of document.querySelectorAll('#docs .microlight:not([tabindex])')) example.tabIndex = 0
}

new MutationObserver(addAccessibility).observe(document.body, { childList: true, subtree: true })
