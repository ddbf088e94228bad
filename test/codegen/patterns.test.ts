import t from 'tap'
import { checkPattern } from '../../src/codegen/patterns.ts'

t.test('accepts what every language compiles', async (t) => {
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
    '(a{10}){100}(b{10}){100}',
  ])
    t.doesNotThrow(() => checkPattern(pattern, 'x'), pattern)
})

t.test('refuses what some language does not compile, or reads differently', async (t) => {
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
    ['a++', 'a possessive count'],
    ['a**', 'a count of a count'],
    ['x{2}{3}', 'a count of a count'],
    ['a{1001}', 'more repeats than RE2 takes'],
    ['(a{11}){100}', 'more repeats than RE2 takes, multiplied'],
    ['((a{2}){2}){251}', 'more repeats than RE2 takes, multiplied twice'],
    ['a{2,1}', 'a count that is empty'],
    ['a{,2}', 'a count that is text in JavaScript'],
    ['{', 'a brace that is text in some'],
    [']', 'a bracket that is text in some'],
    ['[[a]]', 'a set in a set, in Java'],
    ['[a&&b]', 'an intersection, in Java'],
    ['[a--b]', 'a difference, in Python'],
    ['[]', 'an empty set'],
    ['[z-a]', 'a range backwards'],
    ['[\\b]', 'a backspace'],
    ['\\-', 'an escape that is none with the flag u'],
    ['\\0', 'an octal escape'],
    ['\\v', 'white space in Java'],
    ['\\Aa', 'an anchor of Python'],
    ['\\cA', 'a control escape'],
    ['\\', 'half an escape'],
    ['^*', 'an anchor repeated'],
    ['(', 'a group that does not end'],
    ['a)', 'a group that does not begin'],
    ['[😀]', 'two UTF-16 units without the flag u'],
    ['\ud800', 'a lone surrogate'],
  ] as const)
    t.throws(
      () => checkPattern(pattern, 'Context'),
      { name: 'SpecError', message: /^Context: pattern / },
      why,
    )
})
