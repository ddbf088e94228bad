// Reports and reads with the client that openapi-zod-client writes, which checks every answer by its schemas.
import assert from 'node:assert/strict'
import { pathToFileURL } from 'node:url'

const { CLIENT, BASE_URL, TOKEN, OWNER: owner, REPO: repo, SHA: sha, CONTEXT: context } = process.env
const { createApiClient } = await import(pathToFileURL(CLIENT).href)
// axios would write `require[]=`, as PHP has it.
const client = createApiClient(BASE_URL, { axiosConfig: { paramsSerializer: { indexes: null } } })
const options = { params: { owner, repo, sha }, headers: { Authorization: `Bearer ${TOKEN}` } }

const before = await client.listStatuses(options)
assert.equal(before.state, null)
const stored = await client.reportStatus({ state: 'success', context }, options)
assert.deepEqual([stored.context, stored.description], [context, null])
const after = await client.listStatuses(options)
assert.deepEqual([after.state, after.statuses[0].id], ['success', stored.id])
const verdict = await client.getVerdict({ ...options, queries: { require: ['*', 'none'], wait: 1 } })
assert.deepEqual([verdict.verdict, verdict.required[0].contexts], ['pending', [context]])
