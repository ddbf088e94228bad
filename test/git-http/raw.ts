import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { type ClientRequest, type IncomingMessage, type RequestOptions, request } from 'node:http'
import { join } from 'node:path'
import { commandLine, isRunning } from '../git/sample-repository.ts'
import { requestBytes } from '../helpers/keep-alive.ts'

interface RpcOptions {
  authorization?: string
  body?: string
  length?: number
  isLast?: boolean
}

const SPOOLED = /\/spool\/[0-9a-f]+ \(deleted\)$/

export interface RawAnswer {
  status: number
  headers: IncomingMessage['headers']
  body: Buffer
}

/** A request whose body the test writes. */
export interface RawRequest {
  request: ClientRequest
  answer: Promise<RawAnswer>
}

/** Begins a request to one of git's services. The test writes its body. */
export function beginRpc(
  url: string,
  service: string,
  authorization: string,
  headers: Record<string, string> = {},
): RawRequest {
  return begin(`${url}/${service}`, {
    method: 'POST',
    headers: { authorization, 'content-type': `application/x-${service}-request`, ...headers },
  })
}

/**
 * Returns a request to one of git's services as Latin-1 text. A body may be declared longer than it
 * is. After the answer to the last request the server closes the connection.
 */
export function rpcText(
  repository: string,
  service: string,
  { authorization, body = '', length, isLast }: RpcOptions,
): string {
  const headers = {
    ...(authorization && { authorization }),
    'content-type': `application/x-${service}-request`,
    'content-length': `${length ?? body.length}`,
    ...(isLast && { connection: 'close' }),
  }
  return `${requestBytes('POST', `/${repository}.git/${service}`, headers).toString('latin1')}${body}`
}

/** Requests the list of refs that a fetch begins with. */
export function beginRefs(url: string, headers: Record<string, string>): RawRequest {
  const raw = begin(`${url}/info/refs?service=git-upload-pack`, { headers })
  raw.request.end()
  return raw
}

function begin(url: string, options: RequestOptions): RawRequest {
  const { promise, resolve, reject } = Promise.withResolvers<RawAnswer>()
  const raw = request(url, { agent: false, ...options })
  raw.on('error', reject).on('response', (response) => {
    const chunks: Buffer[] = []
    response.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', reject)
    response.on('end', () =>
      resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }),
    )
  })
  promise.catch(() => {})
  return { request: raw, answer: promise }
}

/** Without it, git refuses a push that does not only delete. It is empty: git has all objects. */
export const EMPTY_PACK = Buffer.from(
  '5041434b0000000200000000029d08823bd8a8eab510ad6ac75c823cfd3ed31e',
  'hex',
)

/** Returns a pack without objects. In a repository of SHA-256 it ends with another hash. */
export function emptyPack(objectFormat: 'sha1' | 'sha256'): Buffer {
  const head = EMPTY_PACK.subarray(0, 12)
  return Buffer.concat([head, createHash(objectFormat).update(head).digest()])
}

/** Returns text, decoded as Latin-1, as a packet. */
export function packet(text: string): string {
  return (text.length + 4).toString(16).padStart(4, '0') + text
}

/** Returns the body of a push. The first command gets the capabilities; '': none. */
export function pushBody(
  commands: readonly string[],
  capabilities = '',
  rest: Uint8Array = EMPTY_PACK,
): Buffer {
  const [first = '', ...others] = commands
  const lines = [capabilities === '' ? first : `${first}\0${capabilities}`, ...others].map(packet)
  return Buffer.concat([Buffer.from(`${lines.join('')}0000`, 'latin1'), rest])
}

/** Returns the files of the spool that a server, by default this process, has open. */
export function spooledFiles(server = process.pid): string[] {
  return readdirSync(`/proc/${server}/fd`)
    .map((name) => linkOf(`/proc/${server}/fd/${name}`))
    .filter((file) => SPOOLED.test(file))
}

/** Returns the files in a data directory's spool that have names, except the locks of servers. */
export function namedSpoolFiles(dataDir: string): string[] {
  return readdirSync(join(dataDir, 'spool')).filter((name) => !name.startsWith('.lock-'))
}

/** Returns the number of bytes in the files of the spool that this process has open. */
export function spooledBytes(): number {
  const ours = readdirSync('/proc/self/fd').map((name) => `/proc/self/fd/${name}`)
  return ours
    .filter((path) => SPOOLED.test(linkOf(path)))
    .reduce((sum, path) => sum + (statSync(path, { throwIfNoEntry: false })?.size ?? 0), 0)
}

/** Returns the processes whose working directory is the repository's folder. */
export function workersIn(path: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => linkOf(`/proc/${pid}/cwd`) === path && isRunning(pid))
}

/**
 * Returns the git processes of a server, by default of this process, that serve requests: one for
 * each. A shell that is about to become git is none yet.
 */
export function servicesOf(server = process.pid): number[] {
  return readFileSync(`/proc/${server}/task/${server}/children`, 'utf8')
    .split(' ')
    .map(Number)
    .filter((pid) => isRunning(pid) && /^(?!.*ulimit).*--stateless-rpc/s.test(commandLine(pid)))
}

function linkOf(link: string): string {
  try {
    return readlinkSync(link)
  } catch {
    return ''
  }
}
