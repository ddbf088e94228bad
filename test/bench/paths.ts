import { once } from 'node:events'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { answerTo, type Side, type SideRequest } from './side.ts'
import { textTable } from './table.ts'

/** What one request runs of `src`. */
interface Counts {
  files: number
  functions: number
  calls: number
}

export interface Path extends Counts {
  name: string
  side: string
}

/** As in the DevTools protocol. */
interface ScriptCoverage {
  url: string
  functions: { functionName: string; ranges: { count: number }[] }[]
}

/**
 * Requests of each kind. The first ones fill caches, and in some of them the server does something
 * else too.
 */
const REQUESTS = 20

/**
 * Counts the files and functions of `src` that one request of each kind runs, with everything
 * cached.
 */
export async function countPaths(side: Side, requests: SideRequest[]): Promise<Path[]> {
  const targets = await fetch(`http://${side.inspector}/json/list`)
  const [{ webSocketDebuggerUrl }] = JSON.parse(await targets.text())
  const socket = new WebSocket(webSocketDebuggerUrl)
  await once(socket, 'open')
  const post = async (method: string, params = {}) => {
    socket.send(JSON.stringify({ id: 1, method, params }))
    const { data } = await new Promise<MessageEvent>((resolve) => {
      socket.onmessage = resolve
    })
    return JSON.parse(data).result
  }
  const paths: Path[] = []
  try {
    await post('Profiler.enable')
    await post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
    for (const { name, requestsOf } of requests) {
      const [request] = requestsOf(side)
      if (!request) continue
      const counts: Counts[] = []
      for (let sent = 0; sent < REQUESTS; sent++) {
        await post('Profiler.takePreciseCoverage')
        await answerTo(side.server, request)
        const { result } = await post('Profiler.takePreciseCoverage')
        counts.push(countCalls(result, side.folder))
      }
      const [least] = counts.sort((a, b) => a.calls - b.calls)
      if (least) paths.push({ name, side: side.name, ...least })
    }
  } finally {
    socket.close()
  }
  return paths
}

function countCalls(scripts: ScriptCoverage[], folder: string): Counts {
  const source = pathToFileURL(join(folder, 'src/')).href
  const called = scripts
    .filter(({ url }) => url.startsWith(source))
    .map(({ functions }) => functions.map(({ ranges: [range] }) => range?.count ?? 0).filter(Boolean))
    .filter((counts) => counts.length > 0)
  const counts = called.flat()
  return {
    files: called.length,
    functions: counts.length,
    calls: counts.reduce((sum, calls) => sum + calls, 0),
  }
}

export function pathTable(paths: Path[]): string {
  return textTable(
    ['', 'commit', 'files', 'functions', 'calls'],
    paths.map(({ name, side, files, functions, calls }) => [
      name,
      side,
      `${files}`,
      `${functions}`,
      `${calls}`,
    ]),
  )
}
