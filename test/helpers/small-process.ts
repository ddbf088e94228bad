import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, openSync, readFileSync, readSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'

/** A program that has ended. */
export interface Ended {
  /** Exit code; 128 and the number of the signal for one that was killed. */
  code: number
  stdout: string
  stderr: string
}

/**
 * Starts programs from a shell. Starting one copies the page tables of the process that does, which
 * takes 15 ms for one of tests with its hundreds of MiB, and less than one for a shell. It ends with
 * this process.
 *
 * @returns a function that runs a program in a folder, and waits for it
 */
export function startSmallProcess(
  environment: NodeJS.ProcessEnv,
): (folder: string, program: readonly string[], input: string | Buffer) => Ended {
  const folder = mkdtempSync(join(tmpdir(), 'small-process-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  const file = (name: string) => join(folder, name)
  // Node reads the pipes of its children only while the event loop runs.
  execFileSync('mkfifo', [file('begin'), file('end')])
  const loop = 'exec <begin >end; while read -r _; do . ./command; echo $?; done'
  spawn('sh', ['-c', loop], { cwd: folder, env: environment, stdio: 'ignore' }).unref()
  const [begin, end] = [openSync(file('begin'), 'w'), openSync(file('end'), 'r')]
  const answer = Buffer.alloc(16)

  return (cwd, program, input) => {
    const stdin = input.length === 0 ? '/dev/null' : file('stdin')
    if (input.length > 0) writeFileSync(stdin, input)
    const command = `cd ${quote(resolve(cwd))} && exec ${program.map(quote).join(' ')}`
    writeFileSync(file('command'), `(${command}) <${quote(stdin)} >./stdout 2>./stderr\n`)
    writeSync(begin, '\n')
    const bytes = readSync(end, answer)
    return {
      code: Number(answer.toString('latin1', 0, bytes)),
      stdout: readFileSync(file('stdout'), 'utf8'),
      stderr: readFileSync(file('stderr'), 'utf8'),
    }
  }
}

/**
 * Starts programs as `startSmallProcess` does, several at a time, while this process goes on.
 *
 * @returns a function that runs a program in a folder, with no other variables than these
 */
export function startSmallProcesses(): (
  folder: string,
  program: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
  input: string | Uint8Array,
) => Promise<Ended> {
  const folder = mkdtempSync(join(tmpdir(), 'small-processes-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  const loop = 'while read -r id; do . "./$id.command" & done'
  const shell = spawn('sh', ['-c', loop], { cwd: folder, stdio: ['pipe', 'pipe', 'ignore'] })
  const pending = new Map<number, (code: number) => void>()
  /** Lets this process end, unless it waits for a program. */
  const refer = () => {
    for (const pipe of [shell.stdin, shell.stdout])
      if (pipe instanceof Socket) pipe[pending.size > 0 ? 'ref' : 'unref']()
  }
  shell.unref()
  createInterface(shell.stdout).on('line', (line) => {
    const [id = 0, code = 0] = line.split(' ').map(Number)
    pending.get(id)?.(code)
  })
  let last = 0

  return async (cwd, program, environment, input) => {
    const id = ++last
    const file = (name: string) => join(folder, `${id}.${name}`)
    const stdin = input.length === 0 ? '/dev/null' : file('stdin')
    if (input.length > 0) writeFileSync(stdin, input)
    const variables = Object.entries(environment).filter(([, value]) => value !== undefined)
    const words = ['env', '-i', ...variables.map(([name, value]) => `${name}=${value}`), ...program]
    const command = `cd ${quote(resolve(cwd))} && exec ${words.map(quote).join(' ')}`
    const streams = `<${quote(stdin)} >./${id}.stdout 2>./${id}.stderr`
    writeFileSync(file('command'), `(${command}) ${streams}; echo ${id} $?\n`)
    const code = await new Promise<number>((resolve) => {
      pending.set(id, resolve)
      refer()
      shell.stdin.write(`${id}\n`)
    })
    pending.delete(id)
    refer()
    const [stdout, stderr] = [readFileSync(file('stdout'), 'utf8'), readFileSync(file('stderr'), 'utf8')]
    for (const name of ['command', 'stdin', 'stdout', 'stderr']) rmSync(file(name), { force: true })
    return { code, stdout, stderr }
  }
}

function quote(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`
}
