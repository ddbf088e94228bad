/**
 * What a job of a CI system has in its environment, and the context that the clients take from it;
 * undefined for none.
 */
export const contexts: [environment: Record<string, string>, context: string | undefined][] = [
  [{ GITLAB_CI: 'true', CI_JOB_NAME: 'test: [linux, 20]', CI_PIPELINE_SOURCE: 'push' }, 'test: [linux, 20]'],
  [
    { GITLAB_CI: 'true', CI_JOB_NAME: 'test 1/3', CI_PIPELINE_SOURCE: 'push', CI_COMMIT_TAG: 'v1' },
    'test 1/3 (tag)',
  ],
  [
    {
      GITLAB_CI: 'true',
      CI_JOB_NAME: 'test',
      CI_PIPELINE_SOURCE: 'merge_request_event',
      CI_MERGE_REQUEST_TARGET_BRANCH_NAME: 'main',
    },
    'test (merge_request_event into main)',
  ],
  [{ GITLAB_CI: 'true', CI_JOB_NAME: 'test', CI_PIPELINE_SOURCE: 'schedule' }, 'test (schedule)'],
  [{ GITLAB_CI: 'true', CI_JOB_NAME: 'test', CI_PIPELINE_SOURCE: 'parent_pipeline' }, undefined],
  [
    {
      DRONE: 'true',
      DRONE_STAGE_NAME: 'linux',
      DRONE_STEP_NAME: 'test',
      DRONE_BUILD_EVENT: 'push',
      DRONE_TARGET_BRANCH: 'main',
    },
    'linux/test',
  ],
  [
    {
      DRONE: 'true',
      DRONE_STAGE_NAME: 'linux',
      DRONE_STEP_NAME: 'test',
      DRONE_BUILD_EVENT: 'pull_request',
      DRONE_TARGET_BRANCH: 'main',
    },
    'linux/test (pull_request into main)',
  ],
  [{ CIRCLECI: 'true', CIRCLE_JOB: 'test-20', CIRCLE_NODE_TOTAL: '1', CIRCLE_NODE_INDEX: '0' }, 'test-20'],
  [{ CIRCLECI: 'true', CIRCLE_JOB: 'test', CIRCLE_NODE_TOTAL: '4', CIRCLE_NODE_INDEX: '3' }, 'test 3'],
  [{ CIRCLECI: 'true', CIRCLE_JOB: 'test', CIRCLE_TAG: 'v1' }, 'test (tag)'],
  // Two jobs of a matrix have the same variables.
  [
    { GITHUB_ACTIONS: 'true', GITHUB_JOB: 'test', GITHUB_WORKFLOW: 'CI', GITHUB_EVENT_NAME: 'push' },
    undefined,
  ],
  [
    { CI: 'woodpecker', CI_WORKFLOW_NAME: 'test', CI_STEP_NAME: 'test', CI_PIPELINE_EVENT: 'push' },
    undefined,
  ],
  [{ BUILDKITE: 'true', BUILDKITE_LABEL: 'test', BUILDKITE_STEP_KEY: 'test' }, undefined],
  [{ JENKINS_URL: 'https://j', JOB_NAME: 'rocket/main', STAGE_NAME: 'Test' }, undefined],
  [{ BUILD_BUILDURI: 'vstfs:///Build/Build/5', SYSTEM_JOBDISPLAYNAME: 'Job' }, undefined],
  [{ TRAVIS: 'true', TRAVIS_JOB_NUMBER: '4.1' }, undefined],
  [{}, undefined],
]

/** Events of GitHub Actions that are about another commit than the one that is checked out. */
export const foreignEvents = [
  'pull_request_target',
  'workflow_run',
  'issue_comment',
  'check_run',
  'check_suite',
]
