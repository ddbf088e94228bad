import { registerHooks } from 'node:module'
import { pathToFileURL } from 'node:url'
import type { Test } from 'tap'
import { measureTest } from './times.ts'

/**
 * Runs the test files given as arguments one after the other in this process, since starting one
 * takes longer than most tests. The `t` that a file imports is a test of its own: its teardowns and
 * its `jobs` are those of the file.
 */
export const files = new Map<string, Test>()

// Tap names its root test, and folders of tests, after the arguments.
const paths = process.argv.splice(2)
const { default: t } = await import('tap')
escapeSeparators()

registerHooks({
  resolve: (specifier, context, next) =>
    specifier === 'tap' && files.has(context.parentURL ?? '')
      ? { url: moduleOf(context.parentURL ?? ''), format: 'module', shortCircuit: true }
      : next(specifier, context),
})

/** Returns the URL of a module that exports what test files import from tap. */
function moduleOf(file: string): string {
  const code = `import { files } from ${JSON.stringify(import.meta.url)}
const t = files.get(${JSON.stringify(file)})
export default t
export const test = t.test.bind(t)`
  return `data:text/javascript,${encodeURIComponent(code)}`
}

/**
 * Has tap print line separators as escapes. Its parser, through which each test prints, takes them
 * for ends of lines and loses all that follows.
 */
function escapeSeparators(): void {
  const parser: { write(chunk: unknown, ...rest: unknown[]): boolean } = Object.getPrototypeOf(t.parser)
  const { write } = parser
  const escapeOf = (character: string) => `\\u${character.charCodeAt(0).toString(16)}`
  parser.write = function (chunk, ...rest) {
    const isText = typeof chunk === 'string'
    return write.call(this, isText ? chunk.replace(/[\u2028\u2029]/g, escapeOf) : chunk, ...rest)
  }
}

for (const file of paths) {
  t.test(file, async (test) => {
    if (Date.now() > Number(process.env.TEST_UNTIL)) return test.plan(0, 'no time left')
    // The limit is that of a file, and its time begins now.
    t.setTimeout(Number(process.env.TAP_TIMEOUT) * 1000)
    test.teardown(measureTest(file, process.env.TEST_TIMES ?? '/dev/null'))
    const url = pathToFileURL(file).href
    files.set(url, test)
    await import(url)
  })
}
