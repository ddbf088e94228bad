// Octokit: createCommitStatus works unchanged with `baseUrl`. Run: node octokit.mjs OWNER REPO SHA
//
// Differences from GitHub's API: only full commit ids name a commit; a report is answered with the fields of this
// API (no `creator`, no `url`); statuses are read with GET /repos/{owner}/{repo}/commits/{sha}/statuses, which answers one
// object with all contexts and the combined state, without pages; there is no /commits/{ref}/status.
import { Octokit } from '@octokit/rest'

const [, , owner, repo, sha] = process.argv
const octokit = new Octokit({
  auth: process.env.COMMIT_STATUS_TOKEN,
  baseUrl: `${process.env.COMMIT_STATUS_URL}/api/v1`,
})
const { data } = await octokit.rest.repos.createCommitStatus({
  owner,
  repo,
  sha,
  state: 'success',
  context: 'octokit',
})
process.stdout.write(`${data.state}\n`)
