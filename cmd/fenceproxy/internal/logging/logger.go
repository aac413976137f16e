package logging

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Logger is a logger whose level can be changed while it is in use.
type Logger struct {
	*zap.Logger
	Out   zapcore.WriteSyncer // for lines of another kind, which do not run into its own
	level zap.AtomicLevel
}

// New is a logger to out. level is debug, info, warn or error; format is json or console.
func New(out zapcore.WriteSyncer, level, format string) (*Logger, error) {
	l := &Logger{Out: zapcore.Lock(out), level: zap.NewAtomicLevel()}
	if err := l.SetLevel(level); err != nil {
		return nil, err
	}
	c := encoding()
	encoder := zapcore.NewJSONEncoder(c)
	if format == "console" {
		c.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		c.EncodeLevel = zapcore.CapitalLevelEncoder
		c.EncodeDuration = zapcore.StringDurationEncoder
		c.ConsoleSeparator = "  "
		encoder = zapcore.NewConsoleEncoder(c)
	}
	l.Logger = zap.New(zapcore.NewCore(encoder, l.Out, l.level))
	return l, nil
}

// SetLevel changes the lowest level that is logged, also of loggers made of this one.
func (l *Logger) SetLevel(level string) error {
	lowest, err := zapcore.ParseLevel(level)
	if err == nil {
		l.level.SetLevel(lowest)
	}
	return err
}

func encoding() zapcore.EncoderConfig {
	return zapcore.EncoderConfig{
		TimeKey: "time", LevelKey: "level", NameKey: "logger", MessageKey: "message", StacktraceKey: "stack",
		LineEnding:     zapcore.DefaultLineEnding,
		EncodeTime:     zapcore.RFC3339NanoTimeEncoder,
		EncodeLevel:    zapcore.LowercaseLevelEncoder,
		EncodeDuration: zapcore.SecondsDurationEncoder,
	}
}

// Bounded is log with at most perSecond lines of the same message in a second; dropped is called for each line beyond.
func Bounded(log *zap.Logger, dropped func()) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Second, perSecond, 0,
			zapcore.SamplerHook(func(_ zapcore.Entry, d zapcore.SamplingDecision) {
				if d&zapcore.LogDropped > 0 {
					dropped()
				}
			}))
	}))
}
