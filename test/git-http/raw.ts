import { readdirSync, readlinkSync } from 'node:fs'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { isRunning } from '../git/sample-repository.ts'

interface RawAnswer {
  status: number
  headers: IncomingMessage['headers']
  body: Buffer
}

/** A request under way, in the hands of the test. */
export interface RawRequest {
  request: ClientRequest
  answer: Promise<RawAnswer>
}

/** Begins a request to one of git's services; its body is the test's to write. */
export function beginRpc(
  url: string,
  service: string,
  authorization: string,
  headers: Record<string, string> = {},
): RawRequest {
  const { promise, resolve, reject } = Promise.withResolvers<RawAnswer>()
  const raw = request(`${url}/${service}`, {
    method: 'POST',
    agent: false,
    headers: { authorization, 'content-type': `application/x-${service}-request`, ...headers },
  })
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

/** The processes that work in the repository's folder. */
export function workersIn(path: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => folderOf(pid) === path && isRunning(pid))
}

function folderOf(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    return ''
  }
}
