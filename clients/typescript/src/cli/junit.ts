import { statSync } from 'node:fs'
import { SaxesParser } from 'saxes'
import { operations } from '../generated/operations.ts'
import { plain, say } from './terminal.ts'
import { readXml } from './xml.ts'

/** What JUnit files report, as a description. */
export interface JunitSummary {
  failed: number
  description: string
}

const LONGEST = operations.reportStatus.maxLength.description
/** File systems round times; in milliseconds. */
const ROUNDING = 2_000

/**
 * Summarizes JUnit files: `53 of 414 failed: name, name, and 51 more`. What cannot be read is left
 * out with a warning; undefined if nothing is left.
 *
 * @param since in milliseconds since the epoch; an older file is of an earlier run
 */
export async function readJunit(files: readonly string[], since = 0): Promise<JunitSummary | undefined> {
  const failed: string[] = []
  let count = 0
  let isRead = false
  for (const file of files) {
    try {
      if (statSync(file).mtimeMs + ROUNDING < since) throw new Error('it is older than this run')
      const tests = await readFile(file)
      count += tests.length
      failed.push(...tests.filter((test) => test.hasFailed).map(({ name }) => name))
      isRead = true
    } catch (error) {
      say(`warning: ${file} is left out: ${error instanceof Error ? error.message.split('\n')[0] : error}`)
    }
  }
  return isRead ? { failed: failed.length, description: describe(count, failed) } : undefined
}

/**
 * Returns the test cases of a file that were not skipped.
 *
 * @throws for what is no XML, and for DOCTYPE, whose entities can be huge
 */
async function readFile(file: string): Promise<{ name: string; hasFailed: boolean }[]> {
  const tests: TestCase[] = []
  let open: TestCase | undefined
  const parser = new SaxesParser()
  parser.on('error', (error) => {
    throw error
  })
  parser.on('doctype', () => {
    throw new Error('it has a DOCTYPE')
  })
  parser.on('opentag', ({ name: fullName, attributes }) => {
    const name = localName(fullName)
    if (name === 'testcase') {
      open = readTestCase(attributes)
      tests.push(open)
    } else if (open && (name === 'failure' || name === 'error')) {
      open.hasFailed = true
      open.isTeardown ||= TEARDOWN.test(attributes.message ?? '')
    } else if (open && (name === 'skipped' || name === 'disabled')) open.isSkipped = true
  })
  parser.on('closetag', ({ name }) => {
    if (localName(name) === 'testcase') open = undefined
  })
  for await (const text of readXml(file)) parser.write(text)
  parser.close()
  const failed = new Set(tests.filter((test) => test.hasFailed && !test.isTeardown).map(({ key }) => key))
  return tests.filter(({ key, isSkipped, isTeardown }) => !isSkipped && !(isTeardown && failed.has(key)))
}

interface TestCase {
  name: string
  /** The same for all test cases of a test. */
  key: string
  hasFailed: boolean
  isSkipped: boolean
  /** Whether the teardown failed: of a test that failed too, pytest writes a second test case. */
  isTeardown: boolean
}

const TEARDOWN = /^failed on teardown\b/

/** Returns the name of an element without the prefix of its namespace. */
function localName(name: string): string {
  return name.slice(name.indexOf(':') + 1)
}

/** What could not begin a test, such as the setup of its class, has no name of its own. */
function readTestCase({ name = '', classname = '', status }: Record<string, string>): TestCase {
  return {
    name: plain(name || classname).trim(),
    key: JSON.stringify([classname, name]),
    hasFailed: false,
    isSkipped: status === 'notrun' || status === 'disabled',
    isTeardown: false,
  }
}

/** Names as many tests as fit, whole names only. */
function describe(count: number, failed: readonly string[]): string {
  if (failed.length === 0) return `${count} passed`
  const start = `${failed.length} of ${count} failed`
  let description = start
  for (let named = 0; named <= failed.length; named++) {
    const more = failed.length - named
    const names = [...failed.slice(0, named), ...(more > 0 ? [`and ${more} more`] : [])]
    const longer = named === 0 ? start : `${start}: ${names.join(', ')}`
    if (Array.from(longer).length > LONGEST) break
    description = longer
  }
  return description
}
