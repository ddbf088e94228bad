// Swagger UI has a dark theme, which this class enables.
const dark = window.matchMedia('(prefers-color-scheme: dark)')
const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', follow)
follow()

/** Shows the commands of the description, and collapses its conventions, so that the operations are near. */
const collapseConventions = () => ({
  wrapComponents: {
    Markdown:
      (Markdown, { React, specSelectors }) =>
      (props) => {
        const { source } = props
        const whole = React.createElement(Markdown, props)
        if (source !== specSelectors.info().get('description')) return whole
        // On a phone the commands would take the whole first screen.
        const end = window.matchMedia('(max-width: 40rem)').matches ? 0 : source.indexOf('\n## ')
        const part = (text) => React.createElement(Markdown, { ...props, source: text })
        const heading = React.createElement('h2', null, 'Authentication, errors and conventions')
        const summary = React.createElement('summary', null, heading)
        const rest = React.createElement('details', { className: 'about' }, summary, part(source.slice(end)))
        return React.createElement('div', null, part(source.slice(0, end)), rest)
      },
  },
})

/** Ids of the operations that need no token for a public repository. */
const open = []

/**
 * Returns the contract with what helps to try it here: one field for the token, no value for `If-None-Match`, and reports
 * of a context that nothing requires.
 */
function forTrying(contract) {
  delete contract.components.securitySchemes.accessToken
  for (const operation of Object.values(contract.paths).flatMap((path) => Object.values(path))) {
    operation.security = operation.security.filter((scheme) => !scheme.accessToken)
    if (operation.security.some((scheme) => Object.keys(scheme).length === 0))
      open.push(operation.operationId)
  }
  const { IfNoneMatch } = contract.components.parameters
  delete IfNoneMatch.example
  delete IfNoneMatch.examples
  for (const { requestBody } of Object.values(contract.paths).flatMap((path) => Object.values(path))) {
    const examples = requestBody?.content['application/json'].examples ?? {}
    for (const { value } of Object.values(examples)) if (value.context) value.context = 'try-it-out'
  }
  return contract
}

const docs = document.getElementById('docs')

/** Adds an element, and waits until what it names has been loaded. */
function load(name, attributes) {
  const element = Object.assign(document.createElement(name), attributes)
  const loaded = new Promise((resolve, reject) =>
    Object.assign(element, { onload: resolve, onerror: reject }),
  )
  docs.before(element)
  return loaded
}

/** Renders the contract. A token entered here stays in the memory of this page. */
async function render() {
  const [response] = await Promise.all([
    fetch('/openapi.json'),
    load('link', { rel: 'stylesheet', href: docs.dataset.style }),
    load('script', { src: docs.dataset.script }),
  ])
  const contract = await response.json()
  await untilAtTop()
  window.SwaggerUIBundle({
    spec: forTrying(contract),
    dom_id: '#docs',
    displayRequestDuration: true,
    persistAuthorization: false,
    validatorUrl: null,
    defaultModelsExpandDepth: 0,
    presets: [window.SwaggerUIBundle.presets.apis],
    plugins: [collapseConventions],
    onComplete: () => document.getElementById('reference').remove(),
  })
}

/** Waits until the page is not scrolled: nobody who reads the reference loses the place. */
function untilAtTop() {
  return new Promise((resolve) => {
    const check = () => {
      if (window.scrollY > 0) return
      window.removeEventListener('scroll', check)
      resolve()
    }
    window.addEventListener('scroll', check)
    check()
  })
}

// Swagger UI is a hundred times larger than the page, whose reference is shown first.
render()

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
  // A lock would say that these need a token.
  for (const id of open) {
    const lock = document.querySelector(`#docs [id$="-${id}"] .authorization__btn:not([data-open])`)
    lock?.setAttribute('data-open', '')
    lock?.setAttribute('aria-label', 'No token is needed for public repositories')
  }
  for (const example of document.querySelectorAll('#docs .microlight:not([tabindex])')) example.tabIndex = 0
}

new MutationObserver(addAccessibility).observe(document.body, { childList: true, subtree: true })
