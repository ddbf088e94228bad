import t from 'tap'
import { findExpressions, findShippedExpressions } from './find-regular-expressions.ts'

/** Length of the longest text that a client can send. */
const LENGTH = 64 * 1024
/** Milliseconds. A linear expression takes one; a quadratic one takes seconds. */
const LIMIT = 200
const ATTEMPTS = 3

t.test('finds literals, constructor calls and schema patterns in a file', async (t) => {
  const text = `
    const one = /a+\\/b/gi.test(text) && new RegExp('c', 'u')
    const two = { pattern: '^d$' }
    const three = new RegExp(\`e\${text}\`)
    const four = new RegExp(schemas.Name.pattern)`
  t.same(findExpressions('file.ts', text), [
    { place: 'file.ts:2', source: 'a+\\/b', flags: 'gi' },
    { place: 'file.ts:2', source: 'c', flags: 'u' },
    { place: 'file.ts:3', source: '^d$', flags: 'u' },
    { place: 'file.ts:4', source: null, flags: '' },
  ])
})

t.test('each expression takes linear time for input that repeats its own characters', async (t) => {
  const expressions = findShippedExpressions()
  t.ok(expressions.length > 50)
  const slow = expressions.flatMap(({ place, source, flags }) => {
    if (source === null) return [`${place} is built at run time`]
    const expression = new RegExp(source, flags)
    const hard = inputsFor(source).find((input) => time(expression, input) > LIMIT)
    return hard === undefined ? [] : [`${place} with ${JSON.stringify(hard.slice(0, 10))}…`]
  })
  t.same(slow, [])
  t.ok(timeOnce(/=+$/, `${'='.repeat(LENGTH / 2)}\0`) > LIMIT, 'a quadratic expression exceeds the limit')
})

/**
 * Returns texts that repeat parts of the expression and end with a character that it does not
 * match.
 */
function inputsFor(source: string): string[] {
  const characters = [...new Set([...source, ' ', 'a', '0'])]
  const words = source.match(/[\w/:"@=;.-]{2,}/g) ?? []
  const spaced = words.map((word) => `${word} `)
  const pairs = characters.flatMap((first, index) => first + (characters[index + 1] ?? ' '))
  return [...characters, ...pairs, ...words, ...spaced].map(
    (unit) => `${words[0] ?? ''}${unit.repeat(Math.ceil(LENGTH / unit.length))}\0`,
  )
}

/**
 * Returns the milliseconds of the fastest of several searches: another process may slow one down.
 */
function time(expression: RegExp, input: string): number {
  let best = Number.POSITIVE_INFINITY
  for (let attempt = 0; attempt < ATTEMPTS && best > LIMIT; attempt++) {
    best = Math.min(best, timeOnce(expression, input))
  }
  return best
}

function timeOnce(expression: RegExp, input: string): number {
  const began = performance.now()
  input.replace(expression, '')
  return performance.now() - began
}
