import fc from 'fast-check'
import t from 'tap'
import { matchesPattern as matchesInClient } from '../../clients/typescript/src/pattern.ts'
import { matchesPattern as matchesInServer } from '../../src/domain/patterns.ts'

const SMILE = '\u{1f600}'
/** Neither imports the other: the client is a package of its own. */
const implementations = Object.entries({ server: matchesInServer, client: matchesInClient })

t.test('a pattern matches the whole text', async (t) => {
  for (const [pattern, text, matches] of [
    ['build', 'build', true],
    ['build', 'Build', false],
    ['build', 'build/linux', false],
    ['build/*', 'build/', true],
    ['build/*', 'build/linux/x64', true],
    ['build/*', 'rebuild/linux', false],
    ['build/*', 'build', false],
    ['build/*/x64', 'build/x64', false],
    ['build/*/x64', 'build/linux/arm/x64', true],
    ['*/linux', 'build/linux', true],
    ['*', '', true],
    ['*', 'line\nbreak', true],
    ['a*a', 'a', false],
    ['*ab*ab*', 'ab', false],
    ['a*b*c', 'a-b-b-c', true],
    ['a*b*c', 'a-c-b-c', true],
    ['a*b*c', 'a-c-c', false],
    ['a**c', 'abc', true],
    ['.*', 'abc', false],
    ['a*bc*c', 'abc', false],
    ['**', 'anything', true],
    ['', '', true],
    ['', 'a', false],
    ['a.c', 'abc', false],
    ['[ab]?\\', '[ab]?\\', true],
    [`*${SMILE}`, `a${SMILE}`, true],
    ['e\u0301', '\u00e9', false],
  ] as const) {
    for (const [where, matchesPattern] of implementations)
      t.equal(matchesPattern(pattern, text), matches, `${where}: ${JSON.stringify([pattern, text])}`)
  }
})

t.test('agrees with a table of all prefixes', async () => {
  const text = (characters: string[]) =>
    fc.array(fc.constantFrom(...characters), { maxLength: 12 }).map((all) => all.join(''))
  fc.assert(
    fc.property(text(['a', 'b', SMILE, '*', '*']), text(['a', 'b', SMILE, '*']), (pattern, context) => {
      const expected = matchesByTable(pattern, context)
      return implementations.every(([, matchesPattern]) => matchesPattern(pattern, context) === expected)
    }),
    { numRuns: 2_000 },
  )
})

t.test('does not backtrack', async (t) => {
  for (const [where, matchesPattern] of implementations) {
    t.notOk(matchesPattern(`${'*a'.repeat(50_000)}b`, `${'a'.repeat(100_000)}c`), where)
    t.ok(matchesPattern(`${'*a'.repeat(50_000)}*`, 'a'.repeat(100_000)), where)
  }
})

/**
 * Computes for every prefix of the pattern which prefixes of the text it matches, code point by
 * code point.
 */
function matchesByTable(pattern: string, text: string): boolean {
  const characters = [...text]
  let row = [true, ...characters.map(() => false)]
  for (const symbol of pattern) {
    const next: boolean[] = []
    for (let length = 0; length <= characters.length; length++) {
      const last = characters[length - 1]
      next.push(
        symbol === '*'
          ? row[length] === true || next[length - 1] === true
          : last === symbol && row[length - 1] === true,
      )
    }
    row = next
  }
  return row.at(-1) === true
}
