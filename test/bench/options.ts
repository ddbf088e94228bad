/** Options of `npm run bench`, for parseArgs. */
export const benchOptions = {
  size: { type: 'string', default: '10000' },
  rounds: { type: 'string' },
  seconds: { type: 'string', default: '1' },
  only: { type: 'string', default: '' },
  json: { type: 'boolean', default: false },
  chart: { type: 'string' },
  against: { type: 'string' },
  paths: { type: 'boolean', default: false },
  sizing: { type: 'boolean', default: false },
} as const
