import { spawnSync } from 'node:child_process'
import fc from 'fast-check'
import t from 'tap'
import { type RefRule, rulesOfRef, validateRule } from '../../src/domain/ref-rules.ts'
import { flawOfPattern, noteOnPattern, noteOnUnchecked, refMatcher } from '../../src/domain/rule-patterns.ts'

const ruleFor = (refPattern: string): RefRule => ({ refPattern, required: ['ci'], bypass: [] })

t.test('a pattern is about branches, or about tags if it says so', async (t) => {
  const matching = (pattern: string) =>
    ['refs/heads/main', 'refs/heads/refs/tags/v1', 'refs/tags/v1', 'refs/tags/V1', 'refs/notes/v1'].filter(
      refMatcher(pattern),
    )
  t.same(matching('main'), ['refs/heads/main'])
  t.same(matching('*'), ['refs/heads/main', 'refs/heads/refs/tags/v1'], 'not about tags')
  t.same(matching('*v1'), ['refs/heads/refs/tags/v1'])
  t.same(matching('refs/tags/v1'), ['refs/tags/v1'], 'not the branch of that name')
  t.same(matching('refs/tags/v*'), ['refs/tags/v1'], 'case-sensitively')
  t.same(matching('refs/tags/V*'), ['refs/tags/V1'])
  t.same(matching('refs/tags/*'), ['refs/tags/v1', 'refs/tags/V1'])
  const rules = ['refs/tags/v*', 'refs/tags/*', '*'].map(ruleFor)
  t.same(
    rulesOfRef(rules, 'refs/tags/v1').map(({ refPattern }) => refPattern),
    ['refs/tags/v*', 'refs/tags/*'],
  )
})

t.test('patterns that no name can match are refused, with the likely meaning', async (t) => {
  const flaws: Record<string, RegExp> = {
    'main/': /may not end with "\/"; did you mean "main" or "main\/\*"\?$/,
    '/main': /may not begin with "\/"; did you mean "main"\?$/,
    ' main': /may not contain spaces or control characters; did you mean "main"\?$/,
    'a//b': /may not contain "\/\/"; did you mean "a\/b"\?$/,
    'a..b': /may not contain "\.\."$/,
    'v[12]': /may not contain any of ~ \^ : \? \[ \\; only \* is special, so set a rule for each name$/,
    'v?': /only \* is special/,
    'a b': /spaces or control characters$/,
    'a\u0007': /spaces or control characters$/,
    'a/.b': /a part that begins with "\."$/,
    '*.lock': /a part that ends with "\.lock"$/,
    'main.': /may not end with "\."; did you mean "main"\?$/,
    'a@{1}': /may not contain "@\{"$/,
    'refs/heads/main': /^leave out "refs\/heads\/"$/,
    'refs/tags/': /^name tags, or all of them: "refs\/tags\/\*"$/,
    'refs/tags/v1/':
      /name of a tag may not end with "\/"; did you mean "refs\/tags\/v1" or "refs\/tags\/v1\/\*"\?$/,
    'refs/tags/.v*': /name of a tag may not have a part that begins with "\."$/,
  }
  for (const [pattern, flaw] of Object.entries(flaws)) {
    t.match(flawOfPattern(pattern), flaw, pattern)
    t.throws(() => validateRule(ruleFor(pattern)), { message: /^pattern "/ }, pattern)
  }
  for (const pattern of [
    'main',
    '@',
    '-x',
    'HEAD',
    '*',
    'a*.lock*',
    'v*.x',
    '.*'.slice(1),
    'ü/ß',
    'refs/tags/v*',
    'refs',
  ])
    t.equal(flawOfPattern(pattern), null, pattern)
})

t.test('exactly the patterns are refused that git accepts no name for', async (t) => {
  const part = fc.constantFrom(
    'a',
    'B',
    '/',
    '.',
    '..',
    '*',
    '.lock',
    '@',
    '{',
    '@{',
    '-',
    '~',
    '^',
    ':',
    '?',
    '[',
    '\\',
    ' ',
    '\u007f',
    'ü',
  )
  const patterns = fc.sample(fc.array(part, { minLength: 1, maxLength: 5 }), { numRuns: 120, seed: 1 })
  for (const pattern of patterns.map((parts) => parts.join(''))) {
    if (pattern.startsWith('refs/')) continue
    // Some text in the place of each asterisk is as good as any other.
    const name = `refs/heads/${pattern.replaceAll('*', 'x')}`
    const isLegal = spawnSync('git', ['check-ref-format', name]).status === 0
    t.equal(flawOfPattern(pattern) === null, isLegal, JSON.stringify(pattern))
  }
})

t.test('patterns that are legal but doubtful get a note', async (t) => {
  const refs = ['refs/heads/main', 'refs/heads/1', 'refs/tags/v1']
  const notes: Record<string, string | null> = {
    1: null,
    '*': null,
    2: 'no branch matches yet',
    main: null,
    'refs/tags/2*': 'no tag matches yet',
    'refs/tags/*1': null,
    'origin/1':
      'no branch matches yet; it is about branches whose names begin with "origin/"; for others, leave it out: "1"',
    'tags/v1': 'no branch matches yet; it is about branches; for tags, write "refs/tags/v1"',
  }
  for (const [pattern, note] of Object.entries(notes)) t.equal(noteOnPattern(pattern, refs), note, pattern)
  for (const pattern of ['refs', 'refs/notes/*'])
    t.match(
      noteOnPattern(pattern, refs),
      /; it is about branches; rules protect branches and, with "refs\/tags\/", tags/,
    )
  t.match(noteOnPattern('heads/main', refs), /leave it out: "main"/)
  t.equal(noteOnPattern('2', null), null, 'refs that are not known')
  t.equal(
    noteOnPattern('MAIN', ['refs/heads/1', 'refs/heads/main']),
    'no branch matches yet; upper and lower case differ: "refs/heads/main" does not match',
  )
  t.equal(noteOnPattern('refs/tags/V*', ['refs/heads/v1']), 'no tag matches yet')
  t.equal(noteOnPattern('Main', ['refs/heads/Main', 'refs/heads/main']), null)
  const updates = Array.from({ length: 6 }, (_, index) => ({ ref: `refs/heads/${index}`, user: 'bob' }))
  t.match(
    noteOnUnchecked(updates),
    /not checked.*: "refs\/heads\/0" by "bob", .*"refs\/heads\/4" by "bob", and 1 more$/,
  )
  t.equal(noteOnUnchecked([]), null)
})
