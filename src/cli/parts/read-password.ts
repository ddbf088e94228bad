import { createInterface, type Interface } from 'node:readline'
import { Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { checkNewPassword } from '../../auth/password-rules.ts'
import { Refusal } from '../../domain/refusal.ts'

/**
 * Reads a password from standard input. At a terminal, asks for it twice and does not show it.
 * Otherwise takes the first line, so that `echo` and a file with a final line end both work.
 *
 * @throws Refusal if it breaks the rules for passwords, or if the two differ
 */
export async function readNewPassword(userName: string): Promise<string> {
  const password = process.stdin.isTTY ? await askTwice() : await readFirstLine()
  await checkNewPassword(password, userName)
  return password
}

async function readFirstLine(): Promise<string> {
  const [line = ''] = (await text(process.stdin)).split(/\r?\n/, 1)
  return line
}

async function askTwice(): Promise<string> {
  // In terminal mode, readline itself echoes what is typed; this output discards it.
  const output = new Writable({ write: (_chunk: unknown, _encoding, done) => done() })
  const terminal = createInterface({ input: process.stdin, output, terminal: true })
  try {
    const password = await ask(terminal, 'Password: ')
    if ((await ask(terminal, 'The same password again: ')) === password) return password
    throw new Refusal('the two passwords differ; run the command again')
  } finally {
    terminal.close()
  }
}

async function ask(terminal: Interface, prompt: string): Promise<string> {
  process.stderr.write(prompt)
  const answer = await new Promise<string>((resolve, reject) => {
    const cancel = () => reject(new Refusal('no password was entered'))
    terminal.once('SIGINT', cancel)
    terminal.once('close', cancel)
    terminal.question('', resolve)
  })
  process.stderr.write('\n')
  return answer
}
