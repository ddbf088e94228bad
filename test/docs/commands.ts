import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Command } from 'commander'
import { branchesOptions } from '../../clients/typescript/src/cli/branches.ts'
import { gateOptions } from '../../clients/typescript/src/cli/gate.ts'
import { getOptions } from '../../clients/typescript/src/cli/get.ts'
import { landOptions } from '../../clients/typescript/src/cli/land/land.ts'
import { lastPassedOptions } from '../../clients/typescript/src/cli/last-passed.ts'
import { reportOptions } from '../../clients/typescript/src/cli/report.ts'
import { runOptions } from '../../clients/typescript/src/cli/run.ts'
import { waitOptions } from '../../clients/typescript/src/cli/wait.ts'
import { workOptions } from '../../clients/typescript/src/cli/work/options.ts'
import { createProgram } from '../../src/cli/program.ts'
import { benchOptions } from '../bench/options.ts'
import { codeBlocks } from './machine.ts'

const root = resolve(import.meta.dirname, '../..')
const scripts: Record<string, string> = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).scripts
const admin = createProgram({})
const proofs = readdirSync(join(root, 'test/soak'))

const optionsOf = (table: object) => Object.keys(table).map((name) => `--${name}`)
const CLIENT: Record<string, string[]> = {
  report: optionsOf(reportOptions),
  run: optionsOf(runOptions),
  get: optionsOf(getOptions),
  wait: optionsOf(waitOptions),
  'last-passed': optionsOf(lastPassedOptions),
  branches: optionsOf(branchesOptions),
  land: optionsOf(landOptions),
  gate: optionsOf(gateOptions),
  work: optionsOf(workOptions),
  completion: [],
}
const BENCH = optionsOf(benchOptions)
const INFORMATION = ['--help', '--version']

/** Options of other programs, as far as the documents use them. */
const OTHERS: Record<string, string[]> = {
  'apt-get': ['--no-install-recommends', '--yes'],
  chown: ['--recursive'],
  createdb: ['--encoding', '--owner', '--template'],
  curl: [
    '--fail',
    '--header',
    '--silent',
    '--show-error',
    '--retry',
    '--retry-delay',
    '--retry-connrefused',
    '--retry-all-errors',
  ],
  df: ['--human-readable'],
  docker: [
    ...[
      '--build-arg',
      '--cap-drop',
      '--detach',
      '--file',
      '--format',
      '--name',
      '--publish',
      '--read-only',
      '--restart',
      '--security-opt',
    ],
    ...['--stop-timeout', '--tag', '--tmpfs', '--volume'],
  ],
  git: [
    ...[
      '--batch-check',
      '--first-parent',
      '--format',
      '--git-dir',
      '--mirror',
      '--prune',
      '--quiet',
      '--reachable',
    ],
    '--version',
  ],
  install: ['--directory', '--group', '--mode', '--owner'],
  node: ['--eval'],
  ln: ['--force', '--symbolic'],
  npm: ['--global', '--no-save', '--offline', '--prefix', '--silent'],
  npx: ['--no', '--package'],
  rsync: ['--archive', '--delete'],
  sed: ['--in-place'],
  sha256sum: ['--check', '--ignore-missing'],
  systemctl: ['--now'],
  tar: ['--extract', '--file', '--one-top-level', '--strip-components'],
  podman: ['--env'],
  psql: ['--command'],
  useradd: ['--create-home', '--home-dir', '--shell', '--system'],
}
/** Words of a shell that may stand before the name of a program. */
const BEFORE_PROGRAM = /^\s*(?:(?:do|env|exec|sudo -u \S+|\w+=\S*|\w+\(\) \{)\s+)*/
const OPTION = /^\[?(--[a-z][a-z-]*)/

/**
 * Returns what the code in a document names that does not exist, one message each: options,
 * commands, scripts of npm, proofs and files. Blocks in other languages than `sh` are left out.
 */
export function unknownNames(document: string): string[] {
  const blocks = codeBlocks(document).filter(({ language }) => language === 'sh')
  const prose = document.replace(/^( *)```[\s\S]*?^\1```$/gm, '')
  const spans = [...prose.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code.replace(/\s+/g, ' '))
  const check = new Check()
  for (const code of [...blocks.map(({ code }) => code), ...spans]) check.code(code)
  return check.end()
}

class Check {
  readonly #problems: string[] = []
  /** Options of all programs that the document calls. */
  readonly #known = new Set<string>()
  /** Options in code without a program, such as `--json`. */
  readonly #withoutProgram = new Set<string>()

  code(code: string): void {
    const lines = code.replace(/\\\n/g, ' ').replaceAll('\\|', '/')
    for (const line of lines.split(/\n|;|&&|\||\$\(/)) {
      const words = line.replace(BEFORE_PROGRAM, '').match(/\S+/g)
      if (words) this.#command(words)
    }
  }

  end(): string[] {
    const foreign = [...this.#withoutProgram].filter((option) => !this.#known.has(option))
    return [...this.#problems, ...foreign.map((option) => `no program of this document has ${option}`)]
  }

  #command(words: readonly string[]): void {
    const [name = '', ...rest] = words
    const [own, inner] = splitAt(rest, '--')
    if (name === 'admin' || name === 'commit-status-admin') this.#admin(rest)
    else if (name === 'commit-status-server') this.#options(name, own, [...INFORMATION, '--json'])
    else if (name === 'commit-status') this.#client(own, inner)
    else if (name === 'npm') this.#npm(own, inner)
    else if (name === 'npx') this.#npx(own, inner)
    else if (name === 'node') this.#node(own)
    else if (name in OTHERS) this.#options(name, rest, OTHERS[name] ?? [])
    else if (words.length > 1 && name in CLIENT) this.#client(words, [])
    else if (words.length > 1 && childOf(admin, name)) this.#admin(words)
    else for (const option of optionsIn(words)) this.#withoutProgram.add(option)
  }

  #admin(words: readonly string[]): void {
    const rest = words[0] === '--env-file' ? words.slice(2) : [...words]
    let command = admin
    while (command.commands.length > 0) {
      const [word] = rest
      // `admin` alone, or the shell function that passes its arguments on.
      if (word === undefined || word.startsWith('"$@"')) break
      const child = childOf(command, word)
      if (!child) {
        if (!OPTION.test(word)) this.#problems.push(`"${word}" is no command of ${command.name()}`)
        break
      }
      command = child
      rest.shift()
    }
    const options = [...admin.options, ...command.options].map(({ long }) => long ?? '')
    this.#options(`commit-status-admin ${command.name()}`, words, [...options, ...INFORMATION])
  }

  #client(words: readonly string[], inner: readonly string[]): void {
    const [name = ''] = words
    const known = OPTION.test(name) || name === '' ? INFORMATION : CLIENT[name]?.concat('--help')
    if (known) this.#options(`commit-status ${name}`, words, known)
    else this.#problems.push(`"${name}" is no command of commit-status`)
    if (inner.length > 0) this.#command(inner)
  }

  #npm(words: readonly string[], inner: readonly string[]): void {
    this.#options('npm', words, OTHERS.npm ?? [])
    const [command = '', script] = words.filter((word) => !OPTION.test(word))
    if (['ci', 'install', 'uninstall'].includes(command)) return
    const name = command === 'run' ? script : command
    if (name === undefined || !Object.hasOwn(scripts, name)) {
      this.#problems.push(`package.json has no script "${name}"`)
    } else if (name === 'cli') this.#admin(inner)
    else if (name === 'bench') this.#options('npm run bench', inner, BENCH)
    else if (name === 'soak') {
      const [proof = 'NAME'] = inner
      if (proof !== 'NAME' && !proofs.includes(`${proof}.ts`)) this.#problems.push(`no proof "${proof}"`)
    }
  }

  #npx(words: readonly string[], inner: readonly string[]): void {
    const start = words.findIndex((word) => !OPTION.test(word))
    const [own, command] = start === -1 ? [words, inner] : [words.slice(0, start), words.slice(start)]
    this.#options('npx', own, OTHERS.npx ?? [])
    if (command.length === 0) return
    this.#command(start === -1 || inner.length === 0 ? command : [...command, '--', ...inner])
  }

  #node(words: readonly string[]): void {
    this.#options('node', words.slice(0, 1), OTHERS.node ?? [])
    if (OPTION.test(words[0] ?? '')) return
    for (const file of words.filter((word) => word.includes('/')))
      if (!existsSync(join(root, file))) this.#problems.push(`no file ${file}`)
  }

  #options(program: string, words: readonly string[], known: readonly string[]): void {
    for (const option of known) this.#known.add(option)
    for (const option of optionsIn(words))
      if (!known.includes(option)) this.#problems.push(`${program} has no ${option}`)
  }
}

function childOf(command: Command, name: string): Command | undefined {
  return command.commands.find((child) => child.name() === name)
}

function optionsIn(words: readonly string[]): string[] {
  return words.flatMap((word) => OPTION.exec(word)?.[1] ?? [])
}

function splitAt(words: readonly string[], separator: string): [string[], string[]] {
  const index = words.indexOf(separator)
  return index === -1 ? [[...words], []] : [words.slice(0, index), words.slice(index + 1)]
}
