import { createClient, unwrap } from '../../src/index.ts'

const { COMMIT_STATUS_URL = '', COMMIT_STATUS_TOKEN: token, SHA: sha = '' } = process.env
const client = createClient({ baseUrl: COMMIT_STATUS_URL, token })

await Promise.all(
  process.argv.slice(2).flatMap((context) =>
    (['pending', 'success'] as const).map(async (state) => {
      unwrap(await client.reportStatus({ owner: 'acme', repo: 'rocket', sha, body: { state, context } }))
    }),
  ),
)
