import { createInterface, type Interface } from 'node:readline'
import { Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { MAX_PASSWORD_BYTES, MIN_PASSWORD_LENGTH } from '../auth/password.ts'
import { RuleViolation } from '../store/rule-violation.ts'

/**
 * Reads a password from standard input. At a terminal, asks for it twice and does not show it. Otherwise takes the first
 * line, so that `echo` and a file with a final line end both work.
 *
 * @throws RuleViolation where it breaks the rules for passwords, or the two differ
 */
export async function readPassword(): Promise<string> {
  const password = process.stdin.isTTY ? await askTwice() : await readFirstLine()
  const length = [...password].length
  if (length < MIN_PASSWORD_LENGTH)
    throw new RuleViolation(
      `the password is ${length} characters long; at least ${MIN_PASSWORD_LENGTH} are required`,
    )
  const bytes = Buffer.byteLength(password)
  if (bytes > MAX_PASSWORD_BYTES)
    throw new RuleViolation(`the password is ${bytes} bytes long; at most ${MAX_PASSWORD_BYTES} are allowed`)
  return password
}

async function readFirstLine(): Promise<string> {
  const [line = ''] = (await text(process.stdin)).split(/\r?\n/, 1)
  return line
}

async function askTwice(): Promise<string> {
  // In terminal mode, readline itself echoes what is typed; this output discards it.
  const output = new Writable({ write: (_chunk, _encoding, done) => done() })
  const terminal = createInterface({ input: process.stdin, output, terminal: true })
  try {
    const password = await ask(terminal, 'Password: ')
    if ((await ask(terminal, 'The same password again: ')) === password) return password
    throw new RuleViolation('the two passwords differ; run the command again')
  } finally {
    terminal.close()
  }
}

function ask(terminal: Interface, prompt: string): Promise<string> {
  process.stderr.write(prompt)
  return new Promise((resolve, reject) => {
    const cancel = () => reject(new RuleViolation('no password was entered'))
    terminal.once('SIGINT', cancel)
    terminal.once('close', cancel)
    terminal.question('', (answer) => {
      process.stderr.write('\n')
      resolve(answer)
    })
  })
}
