import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, openSync, readFileSync, readSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

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
    const command = `cd ${quote(cwd)} && exec ${program.map(quote).join(' ')}`
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

function quote(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`
}
