import t from 'tap'
import { checkExpression } from '../../src/codegen/lint/patterns.ts'

t.test('accepts patterns that all languages compile', async (t) => {
  for (const pattern of [
    '^[^\\x00]*$',
    '^[A-Za-z0-9._-]+$',
    '^\\.\\.?$|\\.(?:[gG][iI][tT]|[lL][oO][cC][kK])$',
    '^(?:[0-9A-Fa-f]{40}|[0-9A-Fa-f]{64})$',
    '^[hH][tT][tT][pP][sS]?://',
    '^W/"[^"]+"$',
    '^Bearer\\b',
    '^\\d{4}-\\d{2}$',
    '[a\\-z]',
    'x{2,}?',
    'a.b|',
    'é',
    'a{1000}',
  ])
    t.doesNotThrow(() => checkExpression(pattern, 'x'), pattern)
})

t.test('rejects patterns that a language does not compile or interprets differently', async (t) => {
  for (const [pattern, why] of [
    ['^[^\\u0000\\p{Cs}]*$', 'a code point by number and a Unicode class'],
    ['\\u0041', 'a code point by number'],
    ['\\p{L}', 'a Unicode class'],
    ['(?=a)', 'look-ahead'],
    ['(?!a)', 'negative look-ahead'],
    ['(?<=a)b', 'look-behind'],
    ['(?<!a)b', 'negative look-behind'],
    ['(?<n>a)', 'a named group'],
    ['(?P<n>a)', 'a named group of Python'],
    ['(a)\\1', 'a backreference'],
    ['(?<n>a)\\k<n>', 'a named backreference'],
    ['(?i)a', 'a flag'],
    ['(?>a)', 'an atomic group'],
    ['a++', 'a possessive quantifier'],
    ['a**', 'a quantifier after a quantifier'],
    ['x{2}{3}', 'a count after a count'],
    ['a{1001}', 'more repetitions than RE2 supports'],
    ['a{2,1}', 'an empty range of repetitions'],
    ['a{,2}', 'a quantifier that JavaScript reads as text'],
    ['{', 'a brace that some languages read as text'],
    [']', 'a bracket that some languages read as text'],
    ['[[a]]', 'a nested class, in Java'],
    ['[a&&b]', 'an intersection, in Java'],
    ['[a--b]', 'a difference, in Python'],
    ['[]', 'an empty class'],
    ['[z-a]', 'a reversed range'],
    ['[\\b]', 'a backspace'],
    ['\\-', 'an escape that is invalid with the flag u'],
    ['\\0', 'an octal escape'],
    ['\\v', 'white space in Java'],
    ['\\Aa', 'an anchor of Python'],
    ['\\cA', 'a control escape'],
    ['\\', 'an incomplete escape'],
    ['^*', 'a repeated anchor'],
    ['(', 'an unclosed group'],
    ['a)', 'an unopened group'],
    ['[😀]', 'two UTF-16 units without the flag u'],
    ['\ud800', 'a lone surrogate'],
  ] as const)
    t.throws(
      () => checkExpression(pattern, 'Context'),
      { name: 'SpecError', message: /^Context: pattern / },
      why,
    )
})
