/** Options of `npm run bench`, for parseArgs. */
export const benchOptions = {
  size: { type: 'string', default: '10000' },
  rounds: { type: 'string', default: '3' },
  seconds: { type: 'string', default: '1' },
  only: { type: 'string', default: '' },
  json: { type: 'boolean', default: false },
  chart: { type: 'string' },
} as const
