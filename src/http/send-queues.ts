import { createReadStream, fstatSync } from 'node:fs'

/** The kernel's tables of TCP sockets: proc_pid_net(5). */
const TABLES = process.platform === 'linux' ? ['/proc/self/net/tcp', '/proc/self/net/tcp6'] : []

/**
 * Returns, by file descriptor, how many bytes the kernel has accepted that the peer has not acknowledged yet. Node has no
 * call for it. The result is empty on systems without such tables.
 */
export async function sendQueues(descriptors: Iterable<number>): Promise<Map<number, number>> {
  const queues = new Map<number, number>()
  if (TABLES.length === 0) return queues
  const byInode = new Map([...descriptors].map((descriptor) => [fstatSync(descriptor).ino, descriptor]))
  for (const table of TABLES) await readTable(table, byInode, queues).catch(() => {})
  return queues
}

/** Reads a table in chunks: with many connections it is too large for one turn of the event loop. */
async function readTable(
  table: string,
  byInode: ReadonlyMap<number, number>,
  queues: Map<number, number>,
): Promise<void> {
  let rest = ''
  const chunks: AsyncIterable<string> = createReadStream(table, { encoding: 'latin1' })
  for await (const chunk of chunks) {
    const lines = `${rest}${chunk}`.split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      // sl, local address, remote address, state, tx_queue:rx_queue, timer, retransmissions, uid, timeout, inode.
      const columns = line.trim().split(/\s+/)
      const descriptor = byInode.get(Number(columns[9]))
      if (descriptor !== undefined) queues.set(descriptor, Number.parseInt(columns[4] ?? '', 16))
    }
  }
}
