// A lag poller as one would write it in Go, over franz-go and its admin client: it reads the
// commits of all groups, and where all partitions begin and end.
//
// usage: franz-poller BOOTSTRAP_SERVERS ROUNDS
//
// It prints one line of JSON: the seconds of each round, and the commits of the last one.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Commits by group, topic and partition.
type Commits map[string]map[string]map[int32]int64

type Report struct {
	Seconds []float64 `json:"seconds"`
	Commits Commits   `json:"commits"`
}

func main() {
	report, err := poll(os.Args[1], os.Args[2])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(report)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func poll(servers, number string) (Report, error) {
	var report Report
	rounds, err := strconv.Atoi(number)
	if err != nil {
		return report, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(servers, ",")...))
	if err != nil {
		return report, err
	}
	defer client.Close()
	for range rounds {
		started := time.Now()
		if report.Commits, err = read(context.Background(), kadm.NewClient(client)); err != nil {
			return report, err
		}
		report.Seconds = append(report.Seconds, time.Since(started).Seconds())
	}
	return report, nil
}

func read(ctx context.Context, admin *kadm.Client) (Commits, error) {
	groups, err := admin.ListGroups(ctx)
	if err != nil {
		return nil, err
	}
	fetched := admin.FetchManyOffsets(ctx, groups.Groups()...)
	if err := fetched.Error(); err != nil {
		return nil, err
	}
	for _, list := range []func(context.Context, ...string) (kadm.ListedOffsets, error){
		admin.ListStartOffsets, admin.ListEndOffsets,
	} {
		offsets, err := list(ctx)
		if err != nil {
			return nil, err
		}
		if err := offsets.Error(); err != nil {
			return nil, err
		}
	}
	commits := Commits{}
	for group, found := range fetched {
		topics := map[string]map[int32]int64{}
		for topic, partitions := range found.Fetched {
			topics[topic] = make(map[int32]int64, len(partitions))
			for partition, committed := range partitions {
				topics[topic][partition] = committed.At
			}
		}
		commits[group] = topics
	}
	return commits, nil
}
