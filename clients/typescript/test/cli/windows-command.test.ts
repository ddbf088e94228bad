import t from 'tap'
import { windowsCommand } from '../../src/cli/windows-command.ts'

const env = {
  Path: 'C:\\Program Files\\nodejs\\;C:\\tools',
  PATHEXT: '.COM;.EXE;.BAT;.CMD',
  COMSPEC: 'C:\\Windows\\cmd.exe',
}
const files = new Set(
  [
    'C:\\Program Files\\nodejs\\node.exe',
    'C:\\Program Files\\nodejs\\npm',
    'C:\\Program Files\\nodejs\\npm.cmd',
    'C:\\tools\\make.exe',
    'scripts\\test.bat',
    'build.cmd',
  ].map((path) => path.toLowerCase()),
)
const isFile = (path: string) => files.has(path.toLowerCase().replaceAll('/', '\\'))
const start = (name: string, ...args: string[]) => windowsCommand(name, args, env, isFile)

t.test('programs are started as they are', async (t) => {
  t.match(start('node', '-p', '1 "2"'), { args: ['-p', '1 "2"'], isVerbatim: false })
  t.match(start('node').file, /^C:\\Program Files\\nodejs\\node\.EXE$/i)
  t.match(start('make').file, /^C:\\tools\\make\.EXE$/i)
  t.same(
    start('missing', 'a'),
    { file: 'missing', args: ['a'], isVerbatim: false },
    'spawn says that it is not there',
  )
})

t.test('scripts are started by cmd.exe, which gets each argument as it is', async (t) => {
  for (const name of ['npm', 'npm.cmd', 'NPM'])
    t.match(start(name, 'test'), {
      file: 'C:\\Windows\\cmd.exe',
      args: ['/d', '/s', '/c', /^"C:\\Program\^ Files\\nodejs\\npm\.cmd test"$/i],
      isVerbatim: true,
    })
  t.match(start('build').args[3], /^"build\.cmd"$/i, 'in the current folder')
  t.match(start('scripts/test.bat').args[3], /^"scripts\\test\.bat"$/, 'a path with slashes')
  t.match(start('scripts\\test').args[3], /^"scripts\\test\.bat"$/i, 'a path without extension')
})

t.test('no argument is read as a command', async (t) => {
  const read = (arg: string) =>
    removeCarets(removeCarets(String(start('npm', arg).args[3]).slice(1, -1).split(' ').slice(2).join(' ')))
  for (const arg of [
    '',
    'a b',
    '%PATH%',
    'a & calc',
    '"quoted"',
    'C:\\my dir\\',
    'a\\"b',
    '^',
    '(a|b)>c',
    '!x!',
  ])
    t.equal(readArgument(read(arg)), arg, arg)
})

/** Removes the escapes that one reading of cmd.exe removes. */
function removeCarets(text: string): string {
  return text.replace(/\^(.)/gs, '$1')
}

/** Returns what the C runtime makes of one quoted argument. */
function readArgument(text: string): string {
  const inside = /^"(.*)"$/s.exec(text)?.[1] ?? 'not quoted'
  return inside
    .replace(/(\\*)"/g, (_, slashes: string) => `${'\\'.repeat((slashes.length - 1) / 2)}"`)
    .replace(/(\\*)$/, (_, slashes: string) => '\\'.repeat(slashes.length / 2))
}
