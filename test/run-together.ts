import { pathToFileURL } from 'node:url'

/**
 * Runs the test files given as arguments one after the other in this process. To start one takes longer than most tests.
 * They are imported at once: tap ends when it has run all tests that it knows of.
 */
const imports = process.argv.slice(2).map((file) => `import ${JSON.stringify(pathToFileURL(file).href)}`)
await import(`data:text/javascript,${encodeURIComponent(imports.join('\n'))}`)
