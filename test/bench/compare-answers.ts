import { comparisonsOf, type Scenario } from './scenario.ts'

/**
 * Checks that a baseline answers a read with the same bytes as ours, wherever both get the same
 * request.
 *
 * @param onError called for each difference
 */
export async function compareAnswers(scenarios: Scenario[], onError: (text: string) => void): Promise<void> {
  const pairs = scenarios.flatMap((ours) =>
    comparisonsOf(ours).map(({ name }) => ({ ours, theirs: scenarios.find((other) => other.name === name) })),
  )
  for (const { ours, theirs } of pairs) {
    const [mine] = ours.requests
    const same = theirs?.requests[0]?.path.endsWith(mine?.path ?? '') && mine?.method === 'GET'
    if (!theirs || !same || !ours.statuses.includes(200)) continue
    if ((await firstBody(ours)) !== (await firstBody(theirs)))
      onError(`${ours.name}: ${theirs.name} answers with different bytes`)
  }
}

async function firstBody({ server, requests }: Pick<Scenario, 'server' | 'requests'>): Promise<string> {
  const [request] = requests
  const answer = await fetch(server.url + (request?.path ?? ''), { headers: request?.headers ?? {} })
  return answer.text()
}
